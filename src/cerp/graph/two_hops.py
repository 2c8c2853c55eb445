"""Sums over paths item - user - item, for many histories: the heavy part of the filter.

Two ways that agree to the bit: NumPy's, which is always there, and SciPy's, in half the time.
Both add in the order that `cerp.graph.filter` defines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cerp.data.ids import Int32Array, Int64Array
from cerp.graph.arithmetic import DoubleArray
from cerp.graph.edges import Edges, places

BATCH = 64
"""Histories whose first hop is one sparse product."""


class TwoHops:
    """``s = Rᵀ D_q R D_p x`` for the indicator x of a history.

    Parameters
    ----------
    edges
        The training graph.
    use_scipy
        False: NumPy alone, as where SciPy is not installed.

    """

    def __init__(self, edges: Edges, *, use_scipy: bool = True) -> None:
        self.edges = edges
        self.use_scipy = use_scipy and _scipy_is_there()

    def sums(
        self, histories: Sequence[Int32Array], start: DoubleArray, middle: DoubleArray
    ) -> Iterator[DoubleArray]:
        """The sums of each history, given the weights of items and of users.

        The array that is handed out is written to again for the next history.
        """
        for begin in range(0, len(histories), BATCH):
            batch = histories[begin : begin + BATCH]
            if self.use_scipy:
                yield from self._by_scipy(batch, start, middle)
            else:
                yield from (self._by_numpy(history, start, middle) for history in batch)

    def _by_numpy(
        self, history: Int32Array, start: DoubleArray, middle: DoubleArray
    ) -> DoubleArray:
        edges = self.edges
        counts = edges.item_degrees[history]
        met = edges.users[places(edges.item_offsets[history], counts)]
        reach = np.bincount(
            met, weights=np.repeat(start[history], counts), minlength=edges.num_users
        )
        reached = np.flatnonzero(reach)
        counts = edges.user_degrees[reached]
        ends = edges.items[places(edges.user_offsets[reached], counts)]
        weights = np.repeat(reach[reached] * middle[reached], counts)
        sums = np.bincount(ends, weights=weights, minlength=edges.num_items)
        return sums.astype(np.float64, copy=False)

    def _by_scipy(
        self, histories: Sequence[Int32Array], start: DoubleArray, middle: DoubleArray
    ) -> Iterator[DoubleArray]:
        from scipy.sparse import csr_array
        from scipy.sparse._sparsetools import csc_matvec

        lengths = [len(history) for history in histories]
        items = np.concatenate(histories)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        shape = (len(histories), self.edges.num_items)
        reach = csr_array((start[items], items, offsets), shape=shape) @ self._taken_by
        reach.sort_indices()
        begins, ends, rows, ones = self._rows_backwards
        # SciPy adds up columns that lie between successive offsets. Every second offset starts
        # a column that is wanted, the others one that ends before it starts, for the rows are
        # stored from the last user to the first: so nothing is copied, and users still come
        # in ascending order.
        columns = np.empty(2 * len(reach.indices), dtype=np.int32)
        columns[::2], columns[1::2] = begins[reach.indices], ends[reach.indices]
        weights = np.zeros(2 * len(reach.indices))
        weights[::2] = reach.data * middle[reach.indices]
        sums = np.empty(self.edges.num_items)
        for first, last in zip(2 * reach.indptr[:-1], 2 * reach.indptr[1:], strict=True):
            sums[:] = 0
            if last > first:
                wanted = slice(first, last)
                count = int(last - first - 1)
                csc_matvec(len(sums), count, columns[wanted], rows, ones, weights[wanted], sums)
            yield sums

    @cached_property
    def _taken_by(self) -> Any:
        """Items x users, ones."""
        from scipy.sparse import csr_array

        edges = self.edges
        shape = (edges.num_items, edges.num_users)
        return csr_array((np.ones(len(edges)), edges.users, edges.item_offsets), shape=shape)

    @cached_property
    def _rows_backwards(self) -> tuple[Int32Array, Int32Array, Int32Array, DoubleArray]:
        """Begin and end of each user's items in a list that starts with the last user's."""
        degrees = self.edges.user_degrees
        ends: Int64Array = np.cumsum(degrees[::-1])[::-1]
        begins = ends - degrees
        rows = self.edges.items[places(self.edges.user_offsets[:-1][::-1], degrees[::-1])]
        return begins.astype(np.int32), ends.astype(np.int32), rows, np.ones(len(rows))


def _scipy_is_there() -> bool:
    try:
        from scipy.sparse._sparsetools import csc_matvec  # noqa: F401
    except ImportError:
        return False
    return True
