"""What one of several processes holds of the training pairs: those of its own users."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Float32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.sorting import LONG_STRETCH, STRETCH

Float64Array = npt.NDArray[np.float64]


class Share(NamedTuple):
    """Users that stand next to each other, and so do their pairs, which are sorted by user."""

    users: slice
    rows: slice
    """Of the pairs."""


def share_of(counts: Int64Array, rank: int, world: int) -> Share:
    """The users of one process, of which each has as many pairs as others, up to those of one user.

    ``counts`` are the pairs of each user. Users next to each other make a process read one
    stretch of a file. No user is split, so that what is counted once per user adds up.
    """
    offsets = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    cuts = np.searchsorted(offsets, offsets[-1] * np.arange(world + 1) // world)
    cuts[-1] = len(counts)  # with those at the end who have no pairs
    first, end = cuts[rank : rank + 2].tolist()
    return Share(slice(first, end), slice(int(offsets[first]), int(offsets[end])))


def skips_of(train: Interactions, own: Share, offsets: Int64Array) -> Int64Array:
    """``user * num_items + (p_j - j)`` of the pairs of a share, sorted; users from its first on.

    User and item of every positive can be read off it, so this is all that is kept of the data:
    8 bytes an interaction. ``offsets`` are where the pairs of each user begin.
    """
    skips, users = train.keys(own.rows), train.user[own.rows]
    before = own.users.start * train.num_items
    for start in range(0, len(skips), STRETCH):
        stretch = slice(start, start + STRETCH)
        skips[stretch] -= np.arange(start + before, start + before + len(skips[stretch]))
        skips[stretch] += offsets[users[stretch] - own.users.start]
    return skips


def cuts_by_weight(weight: Float32Array, rows: slice) -> Float64Array:
    """Where each of some rows begins, and the last one ends, on a line that all share by weight.

    The line is as long as there are rows in all. To the bit the same for any ``rows``: weights
    are added up from the first row on.
    """
    cuts, total = np.zeros(rows.stop - rows.start + 1), 0.0
    for start in range(0, len(weight), LONG_STRETCH):
        stretch = weight[start : start + LONG_STRETCH].astype(np.float64)
        sums = np.cumsum(np.concatenate(([total], stretch)))
        first, end = max(rows.start, start), min(rows.stop, start + len(stretch))
        if first <= end:
            cuts[first - rows.start : end - rows.start + 1] = sums[first - start : end - start + 1]
        total = sums[-1]
    cuts *= len(weight) / total
    if rows.stop == len(weight):
        cuts[-1] = np.inf  # rounding may put a point at the very end of the line
    return cuts
