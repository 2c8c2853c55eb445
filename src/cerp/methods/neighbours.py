"""Weights between items as a method: nothing is trained, validation chooses among origins."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from cerp.data.splits import Splits
from cerp.graph.build_neighbours import Builder, Recipe
from cerp.graph.choose_neighbours import choose_neighbours
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents
from cerp.graph.neighbours import Neighbours as Weights
from cerp.graph.neighbours import popularity_levels
from cerp.methods.base import Context
from cerp.methods.item_method import ItemMethod, Room
from cerp.training.search_result import Found

ARRAYS = ("offsets", "targets", "integers", "scales", "popularity")
"""Of the weights, by the names of their tensors."""


class Neighbours(ItemMethod):
    """``score(i) = Σ_{j ∈ history} S_ji`` with a sparse S, from EASE, the cosine or the filter.

    `cerp.graph.neighbours` defines it. A budget limits the weights that are stored, or their
    bytes; validation chooses where they come from, by ``Config.selection_metric``.
    """

    def smallest(self, splits: Splits) -> Weights:
        """No weight at all."""
        count = splits.num_items
        return Weights(
            offsets=np.zeros(count + 1, dtype=np.int64),
            targets=np.empty(0, dtype=np.int32),
            integers=np.empty(0, dtype=np.int8),
            scales=np.zeros(count, dtype=np.float16),
            popularity=popularity_levels(splits.train.item_counts),
        )

    def find(self, context: Context, final: Splits, room: Room, most: int) -> Found:
        """The weights that fill a limit and that validation likes best."""
        config, options = context.config, context.options

        def exponents() -> Exponents:
            return context.filter_search.plain.exponents

        found = choose_neighbours(
            context.splits,
            room.fullness,
            most,
            exponents=exponents,
            metric=config.selection_metric,
            seed=config.seed,
            quiet=options.quiet,
        )
        weights, recipe = found.best.neighbours, found.best.recipe
        if final is not context.splits:
            builder = Builder(Edges.of(final.train), room.fullness, most)
            weights = builder.fitting(builder.weights(recipe), recipe.bits).neighbours
        facts: dict[str, Any] = {
            **_told(recipe),
            f"valid_{found.metric}": found.score,
            "trials": [
                {
                    **_told(one.recipe),
                    "weights": len(one.neighbours),
                    found.metric: one.score,
                    "seconds": round(one.seconds, 3),
                }
                for one in found.tried
            ],
        }
        return Found(tensors_of(weights), facts)

    def model_of(self, found: Found) -> Weights:
        """The weights that a search found."""
        return Weights(**{name: found.tensors[name].numpy() for name in ARRAYS})


def tensors_of(weights: Weights) -> dict[str, torch.Tensor]:
    """The arrays of weights, by the names in `ARRAYS`."""
    return {name: torch.from_numpy(np.ascontiguousarray(getattr(weights, name))) for name in ARRAYS}


def _told(recipe: Recipe) -> dict[str, Any]:
    """Where weights come from, ready for JSON; what a kind does not have is left out."""
    return {name: value for name, value in asdict(recipe).items() if value is not None}
