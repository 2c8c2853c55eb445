"""Pairs gathered a stretch at a time, then sorted and merged where they lie.

A row is one 64-bit integer: the pair, and beside it the row's time or, where there are weights or
times too far apart for that, the place where these lie. Where that takes more than 63 bits, the
integers of so many users as fit are a block: how many rows each user has is known, so every row
goes to its block at once, and a block is sorted by itself. What is held is eight bytes a row, and
the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cerp.cores import shared_out
from cerp.data.ids import Int32Array, Int64Array
from cerp.data.sorting import STRETCH, sort_on_cores

BITS = 63
"""Of an integer that is not negative."""


class Merged(NamedTuple):
    """Distinct pairs, sorted by user and then item."""

    user: Int32Array
    item: Int32Array
    time: Int64Array | None
    """The earliest of each pair."""
    weight: npt.NDArray[np.float64] | None
    """The sum over the rows of each pair."""
    duplicates: int
    """Rows that repeated an earlier pair."""


class Gathering:
    """Rows of (user, item) with a time and a weight, where there are such.

    ``times`` are the least and the greatest time. ``rows_of_user`` gives the number of rows of
    each user, and is asked only where there are several blocks.
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        rows: int,
        rows_of_user: Callable[[], Int64Array],
        *,
        times: tuple[int, int] | None = None,
        weighted: bool = False,
    ) -> None:
        self._width = max(num_items, 1)
        self._least, most = times or (0, 0)
        span, place = (most - self._least).bit_length(), rows.bit_length()
        # Where times fit beside all pairs they are there, for looking them up takes longer.
        fit = max(num_users, 1) * self._width < 1 << max(BITS - span, 0)
        self._by_place = weighted or (span > place and not fit)
        self._bits = place if self._by_place else span
        # A block of one user fits: items and rows of one table have 31 and 32 bits.
        self._users_in_block = max(((1 << (BITS - self._bits)) - 1) // self._width, 1)
        blocks = -(-num_users // self._users_in_block)
        if blocks <= 1:
            sizes = [rows]
        else:
            starts = range(0, num_users, self._users_in_block)
            sizes = np.add.reduceat(rows_of_user(), starts).tolist()
        self._ends: Int64Array = np.cumsum([0, *sizes], dtype=np.int64)
        self._filled = self._ends[:-1].copy()
        self._packed: Int64Array = np.empty(rows, dtype=np.int64)
        self._time: Int64Array | None = None
        if times is not None and self._by_place:
            self._time = np.empty(rows, dtype=np.int64)
        self._weight = np.empty(rows, dtype=np.float64) if weighted else None
        self._has_times = times is not None
        self._is_sorted = False

    def add(
        self,
        user: npt.NDArray[Any],
        item: npt.NDArray[Any],
        time: npt.NDArray[Any] | None = None,
        weight: npt.NDArray[Any] | None = None,
    ) -> None:
        """Some more rows."""
        packed = user.astype(np.int64)
        order, places, within = self._places(packed)
        packed *= self._width
        packed += item
        packed <<= self._bits
        if self._has_times and not self._by_place:
            assert time is not None
            packed |= time - self._least
        packed = packed[order]
        if self._by_place:
            packed |= within
        self._packed[places] = packed
        if self._time is not None:
            assert time is not None
            self._time[places] = time[order]
        if self._weight is not None:
            assert weight is not None
            self._weight[places] = weight[order]

    def _places(self, user: Int64Array) -> tuple[Any, Any, Int64Array]:
        """The rows by block, where they go, and where that is within their blocks.

        What is left of each user is the place within the block.
        """
        if len(self._filled) == 1:
            start = int(self._filled[0])
            self._filled[0] += len(user)
            rows = slice(start, start + len(user))
            return slice(None), rows, np.arange(rows.start, rows.stop)
        block = user // self._users_in_block
        user -= block * self._users_in_block
        # NumPy sorts short integers by their digits, in a fraction of the time.
        short = np.min_scalar_type(len(self._filled))
        order = np.argsort(block.astype(short), kind="stable")
        sizes = np.bincount(block, minlength=len(self._filled))
        before = np.cumsum(sizes) - sizes
        places = np.arange(len(user)) + np.repeat(self._filled - before, sizes)
        self._filled += sizes
        return order, places, places - np.repeat(self._ends[:-1], sizes)

    def merged(self) -> Merged:
        """All rows, which have to be there. What was gathered is used up."""
        if not self._is_sorted:
            self.sort()
        ends = self._merge()
        count, rows = ends[-1], len(self._packed)
        user, item = np.empty(count, np.int32), np.empty(count, np.int32)
        in_key = self._has_times and not self._by_place
        time = np.empty(count, np.int64) if in_key else _cut(self._time, count)
        for block, part in _stretches(ends):
            key = self._packed[part]
            if in_key:
                assert time is not None
                np.bitwise_and(key, (1 << self._bits) - 1, out=time[part])
                time[part] += self._least
            key = key >> self._bits
            quotient = key // self._width
            np.add(quotient, block * self._users_in_block, out=user[part], casting="unsafe")
            quotient *= self._width
            np.subtract(key, quotient, out=item[part], casting="unsafe")
        del self._packed
        return Merged(user, item, time, _cut(self._weight, count), rows - count)

    def sort(self) -> None:
        """Sort all rows, which have to be there; otherwise `merged` does."""
        self._is_sorted = True
        blocks = [self._packed[start:end] for start, end in itertools.pairwise(self._ends.tolist())]
        if len(blocks) == 1:
            sort_on_cores(blocks[0])
            return
        shared_out(np.ndarray.sort, blocks)

    def _merge(self) -> list[int]:
        """Move the first row of every pair to the front; gives where each block ends then."""
        merge = self._merge_by_place if self._by_place else self._merge_sorted
        ends = [0]
        for start, end in itertools.pairwise(self._ends.tolist()):
            ends.append(merge(start, end, ends[-1]))
        return ends

    def _merge_sorted(self, start: int, end: int, kept: int) -> int:
        """Of a block: the first row of a pair has its earliest time, for rows are sorted by it."""
        last = -1
        for begin in range(start, end, STRETCH):
            stretch = self._packed[begin : min(begin + STRETCH, end)]
            key = stretch >> self._bits
            first = np.empty(len(key), dtype=bool)
            first[0] = key[0] != last
            np.not_equal(key[1:], key[:-1], out=first[1:])
            last = key[-1]
            found = int(np.count_nonzero(first))
            if found < len(key) or kept < begin:
                self._packed[kept : kept + found] = stretch[first]
            kept += found
        return kept

    def _merge_by_place(self, start: int, end: int, kept: int) -> int:
        """Of a block: times and weights are brought into the order of its pairs, and merged."""
        block = self._packed[start:end]
        order = block & ((1 << self._bits) - 1)
        key = block >> self._bits
        first = np.ones(len(key), dtype=bool)
        np.not_equal(key[1:], key[:-1], out=first[1:])
        starts = np.flatnonzero(first)
        into = slice(kept, kept + len(starts))
        for values, together in ((self._time, np.minimum), (self._weight, np.add)):
            if values is not None and len(starts):
                values[into] = together.reduceat(values[start:end][order], starts)
        self._packed[into] = block[starts]
        return into.stop


def _stretches(ends: list[int]) -> Iterator[tuple[int, slice]]:
    """The stretches of every block, which stay in the cache, each with the block's number."""
    for block, (start, end) in enumerate(itertools.pairwise(ends)):
        for begin in range(start, end, STRETCH):
            yield block, slice(begin, min(begin + STRETCH, end))


def _cut(values: npt.NDArray[Any] | None, count: int) -> npt.NDArray[Any] | None:
    """The first values; without the room of the others, where there are any."""
    return values if values is None or len(values) == count else values[:count].copy()
