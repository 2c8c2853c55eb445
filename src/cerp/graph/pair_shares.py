"""``F / max F`` of the pairs that it is not near 0 for, to be looked up while vectors are trained.

No table of users times items: of each user the taken items, which training asks for all the
time, and of the others the largest that are at least `BOUND`. What is left out counts as 0. With
ε = .01 that changes log(ε + F / max F) by at most .01 where the bound left it out, and by more
where memory did; β and ε are found with all of F after training.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int64Array
from cerp.graph.filter import Float32Array, GraphFilter

BOUND = 1e-4
LARGEST = 60_000.0
"""Half precision ends soon after; taken items may be far above the best that is not taken."""
MOST_PAIRS = 100_000_000
"""Of items that are not taken, with 10 bytes each: 1 GB."""
ROWS = 64
"""Users whose F is computed together."""


class PairShares(NamedTuple):
    """Pairs in ascending order, and what the filter gives them."""

    keys: Int64Array
    """user · number of items + item"""
    values: npt.NDArray[np.float16]


def pair_shares(model: GraphFilter, most_pairs: int = MOST_PAIRS) -> PairShares:
    """The pairs of all users; ``most_pairs`` are shared evenly among them."""
    num_users, num_items = model.edges.num_users, model.num_items
    most = max(1, most_pairs // num_users)
    keys, values = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.float16)]
    for first in range(0, num_users, ROWS):
        users = np.arange(first, min(first + ROWS, num_users), dtype=np.int32)
        for user, strengths in zip(users, model.strengths(users), strict=True):
            taken = model.edges.history(int(user))
            items, shares = _largest(strengths, taken, most)
            keys.append(int(user) * num_items + items)
            values.append(np.minimum(shares, LARGEST).astype(np.float16))
    return PairShares(np.concatenate(keys), np.concatenate(values))


def _largest(
    strengths: Float32Array, taken: npt.NDArray[np.int32], most: int
) -> tuple[Int64Array, Float32Array]:
    """A user's items that are kept, ascending, and their shares."""
    free = strengths.copy()
    free[taken] = 0
    peak = free.max(initial=0)
    if peak == 0:  # then the fraction is 0, by definition
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
    near = np.flatnonzero(free >= BOUND * peak)
    if len(near) > most:
        near = near[np.argpartition(-free[near], most - 1)[:most]]
    items = np.union1d(near, taken[strengths[taken] > 0]).astype(np.int64)
    return items, strengths[items] / peak
