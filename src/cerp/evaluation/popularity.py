"""Items by how many training interactions they have: head and tail, and equal groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int64Array
from cerp.data.interactions import Interactions

HEAD_SHARE = 0.2
"""Share of the catalogue that counts as head."""


def head_items(train: Interactions) -> npt.NDArray[np.bool_]:
    """Which items are head: the most popular fifth (rounded up) in training."""
    return popularity_ranks(train) < int(np.ceil(HEAD_SHARE * train.num_items))


def popularity_scores(item_degrees: Int64Array) -> npt.NDArray[np.float32]:
    """``−1 / (1 + d_i)`` for items that d_i users took: the scores where no more is known.

    Below 0, so that what a model has reason to recommend comes first, and by popularity.
    """
    return (-1 / (1 + item_degrees)).astype(np.float32)


def popularity_groups(train: Interactions, count: int = 10) -> Int64Array:
    """The group that each item is in: 0 for those with the most interactions.

    The groups differ in size by at most one item.
    """
    return popularity_ranks(train) * count // train.num_items


def popularity_ranks(train: Interactions) -> Int64Array:
    """The place of each item, from 0 for the most interactions; ties in native order."""
    ranks = np.empty(train.num_items, dtype=np.int64)
    ranks[np.argsort(-train.item_counts, kind="stable")] = np.arange(train.num_items)
    return ranks
