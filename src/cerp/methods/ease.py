"""EASE as a method: the item-item model with all of its weights, where that is possible."""

from __future__ import annotations

from typing import Any

from cerp.data.splits import Splits
from cerp.errors import BudgetError
from cerp.graph.choose_ease import all_weights, choose_ease
from cerp.graph.ease import MOST_DENSE_ITEMS
from cerp.graph.edges import Edges
from cerp.methods.base import Context
from cerp.methods.item_method import Room
from cerp.methods.neighbours import Neighbours, tensors_of
from cerp.training.search_result import Found


class Ease(Neighbours):
    """``B = I − P diag(P)⁻¹`` with ``P = (RᵀR + λI)⁻¹`` (Steck 2019), λ chosen on validation.

    No budget limits it: it is what `neighbours` prunes. Weights are written in 8 bits with a
    scale for each source, and those that round to zero are left out; what is judged is the file.
    The inverse is of all items and takes about 24 bytes for each pair of them, so that more than
    20,000 items are refused.
    """

    has_budget = False

    def check(self, splits: Splits) -> None:
        """Refuse more items than can be inverted."""
        if splits.num_items > MOST_DENSE_ITEMS:
            raise BudgetError(
                f"EASE with all weights inverts a matrix of all items, and {splits.num_items:,} "
                f"are more than the {MOST_DENSE_ITEMS:,} it is possible for here; choose "
                "method=neighbours, which keeps the largest weights alone"
            )

    def find(self, context: Context, final: Splits, room: Room, most: int) -> Found:
        """All weights, with the λ that validation likes best."""
        config = context.config
        found = choose_ease(
            context.splits,
            metric=config.selection_metric,
            seed=config.seed,
            quiet=context.options.quiet,
        )
        weights = found.neighbours
        if final is not context.splits:
            weights = all_weights(Edges.of(final.train), found.best.regularization)
        if (share := room.fullness(weights)) > 1:
            raise BudgetError(
                f"the weights of EASE take {share:.1f} times what the limit allows; choose "
                "method=neighbours, which keeps as many as fit"
            )
        facts: dict[str, Any] = {
            "regularization": found.best.regularization,
            f"valid_{found.metric}": found.score,
            "trials": [
                {
                    "regularization": one.regularization,
                    "weights": one.weights,
                    found.metric: one.score,
                    "seconds": round(one.seconds, 3),
                }
                for one in found.tried
            ],
        }
        return Found(tensors_of(weights), facts)
