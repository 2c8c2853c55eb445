"""A scaled SVD as a method: exponents are searched, then how to store the vectors."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from cerp.data.splits import Splits
from cerp.errors import BudgetError, DataError
from cerp.graph.edges import Edges
from cerp.graph.history_sums import HistorySums, SummedItems
from cerp.graph.scaled_svd import ScaledSvd
from cerp.methods.base import Context
from cerp.methods.item_method import ItemMethod, Room
from cerp.methods.svd.search import RANKS, ScalingSearch
from cerp.methods.svd.storage import FULL, ROWS, VALUES, Storage, StorageSearch, stand_in, stored
from cerp.progress import progress
from cerp.training.search_result import Found


class Svd(ItemMethod):
    """``score(i) = ⟨Σ_{j ∈ history} w_j v_j, v_i⟩`` with vectors of a scaled SVD of the data.

    `cerp.graph.scaled_svd` defines them. A budget limits the values of the books that they are
    sums of, or all bytes; validation chooses exponents, rank, books and their precision, by
    ``Config.selection_metric``. With ``Config.mix`` the graph filter is put beside them, as
    beside vectors that are trained: users are then the sums of what they took.
    """

    can_be_mixed = True

    def smallest(self, splits: Splits) -> SummedItems:
        """The shortest vectors, as sums of two of the fewest rows."""
        return stand_in(Storage(RANKS[0], 2, "int4", ROWS[0]), splits.train.item_counts)

    def find(self, context: Context, final: Splits, room: Room, most: int) -> Found:
        """The vectors that fill a limit and that validation likes best."""
        config, splits, metric = context.config, context.splits, context.config.selection_metric
        largest = min(splits.num_users - 1, splits.num_items - 1, RANKS[-1])
        if largest < RANKS[0]:
            raise DataError(
                f"a singular value decomposition needs three users and three items, and there are "
                f"{splits.num_users:,} and {splits.num_items:,}; choose method=neighbours"
            )
        with progress("svd", quiet=context.options.quiet) as bar:
            scalings = ScalingSearch(splits, metric, config.seed, largest, bar)
            scaling = scalings.best()
            storages = StorageSearch(scalings, scaling, room, final.train.item_counts)
            precision = config.value_precision
            precisions = VALUES if precision is None else (precision,)
            best = storages.best(precisions, grows=final is splits)
        if best is None:
            raise BudgetError(
                f"the budget has no room for vectors of {splits.num_items:,} items, not even for "
                f"sums of two rows of {RANKS[0]} numbers; allow more, or choose method=neighbours"
            )
        storage, items, score = best
        scaling = replace(scaling, rank=storage.rank)
        facts: dict[str, Any] = {
            **asdict(scaling),
            "books": storage.books,
            "values": storage.values,
            f"valid_{metric}": score,
            "trials": [
                *({**asdict(one), metric: score} for one, score in scalings.judged.items()),
                *storages.trials,
            ],
            **room.beside_filter(items),
        }
        if final is not splits:
            svd = ScaledSvd(Edges.of(final.train), storage.rank, config.seed)
            items = stored(svd, scaling, storage, config.seed, FULL)
        return Found(_tensors(items), facts)

    def model_of(self, found: Found) -> SummedItems:
        """The vectors that a search found."""
        arrays = {name: tensor.numpy() for name, tensor in found.tensors.items()}
        exponent = found.facts["lengths"] + found.facts["history"]
        return SummedItems(
            HistorySums(exponent, arrays["popularity"]),
            tuple(arrays["books"]),
            arrays.get("codes"),
            found.facts["values"],
        )


def _tensors(items: SummedItems) -> dict[str, torch.Tensor]:
    arrays = {"popularity": items.sums.popularity, "books": np.stack(items.books)}
    if items.codes is not None:
        arrays["codes"] = items.codes
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
