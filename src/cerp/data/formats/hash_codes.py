"""Rows to codes by the hashes of their ids, with NumPy alone.

A table has a slot for each value of a hash's first bits. Rows are written into it from the last to
the first, so that a slot ends up with the first row that has such bits, and every row then finds
there the first row of its own hash; the few that share a slot with another hash are sorted instead.
A join in a database does the same in three times the core seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array

STRETCH = 1 << 16
"""Rows at a time: what is in between stays in the cache."""
LEAST_BITS, MOST_BITS = 10, 27
"""Of a slot's number: there are as many slots as rows, up to half a gigabyte of them."""
SPREADING = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
"""Odd factors that carry every bit of a number into the first bits of its product."""


def codes_of(hashes: npt.NDArray[np.uint64]) -> Int32Array:
    """Hashes numbered by their first appearance."""
    return numbered(hashes)[0]


def hashes_of(words: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """A hash of the words of each row, whatever number of zero words comes behind them.

    Of two different rows, one in 2^64 has the hash of the other.
    """
    hashes = np.zeros(len(words[0]), dtype=np.uint64)
    for start in range(0, len(hashes), STRETCH):
        stretch = hashes[start : start + STRETCH]
        for place, word in enumerate(words):
            # Another odd factor for each place: words that change places have another hash.
            part = word[start : start + STRETCH] * (SPREADING[0] + np.uint64(2 * place))
            part ^= part >> np.uint64(32)
            part *= SPREADING[1]
            part ^= part >> np.uint64(32)
            stretch += part
        stretch *= SPREADING[0]
    return hashes


def numbered(hashes: npt.NDArray[np.uint64]) -> tuple[Int32Array, Int64Array]:
    """Hashes numbered by their first appearance, and the first row of each number."""
    codes = _first_rows(hashes)
    count, firsts = 0, [np.empty(0, dtype=np.int64)]
    for start in range(0, len(codes), STRETCH):
        stretch = codes[start : start + STRETCH]
        is_new = stretch == np.arange(start, start + len(stretch), dtype=np.int32)
        new = np.flatnonzero(is_new)
        # A first row gets its number in place; the others, which come after it, find it there.
        stretch[new] = np.arange(count, count + len(new), dtype=np.int32)
        count += len(new)
        firsts.append(new + start)
        others = np.flatnonzero(~is_new)
        stretch[others] = codes.take(stretch[others])
    return codes, np.concatenate(firsts)


def _first_rows(hashes: npt.NDArray[np.uint64]) -> Int32Array:
    """The first row that has the same hash, for each row."""
    bits = min(max(len(hashes).bit_length(), LEAST_BITS), MOST_BITS)
    behind = np.uint64(64 - bits)
    starts = range(0, len(hashes), STRETCH)
    slots: Int32Array = np.zeros(1 << bits, dtype=np.int32)
    for start in reversed(starts):
        backwards = hashes[start : start + STRETCH][::-1]
        rows = np.arange(start + len(backwards) - 1, start - 1, -1, dtype=np.int32)
        slots[(backwards >> behind).view(np.int64)] = rows
    first = np.empty(len(hashes), dtype=np.int32)
    others = []
    for start in starts:
        stretch = hashes[start : start + STRETCH]
        found = slots.take((stretch >> behind).view(np.int64))
        first[start : start + STRETCH] = found
        others.append(np.flatnonzero(hashes.take(found) != stretch) + start)
    left = np.concatenate([np.empty(0, np.int64), *others])
    _, places, which = np.unique(hashes[left], return_index=True, return_inverse=True)
    first[left] = left[places][which]
    return first
