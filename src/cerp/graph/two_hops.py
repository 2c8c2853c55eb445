"""Sums over paths item - user - item, for many histories: the heavy part of the filter.

Two ways that agree to the bit: NumPy's, which is always there, and SciPy's, in half the time.
Both add in the order that `cerp.graph.filter` defines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array
from cerp.graph.arithmetic import DoubleArray
from cerp.graph.edges import Edges, places

BATCH = 64
"""Histories that are looked up together."""


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
        self.use_scipy = use_scipy and scipy_is_there()

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
        items = np.concatenate(histories)
        to_users = _WeightedNodes(self._users_of_items, len(items))
        to_users.put(items, start[items])
        to_items = _WeightedNodes(self._items_of_users, self.edges.num_users)
        ends = np.cumsum([len(history) for history in histories]).tolist()
        reach, sums = np.empty(self.edges.num_users), np.empty(self.edges.num_items)
        for begin, end in pairwise([0, *ends]):
            to_users.add_up(begin, end, reach)
            reached = (reach != 0).nonzero()[0]  # several times as fast as of the numbers
            to_items.put(reached, reach[reached] * middle[reached])
            to_items.add_up(0, len(reached), sums)
            yield sums

    @cached_property
    def _users_of_items(self) -> _Neighbours:
        return _Neighbours(self.edges.item_offsets, self.edges.users, self._ones)

    @cached_property
    def _items_of_users(self) -> _Neighbours:
        return _Neighbours(self.edges.user_offsets, self.edges.items, self._ones)

    @cached_property
    def _ones(self) -> DoubleArray:
        """The value of each edge, in one place of the cache for both directions."""
        return np.ones(len(self.edges))


class _Neighbours:
    """Neighbours of nodes in a list that starts with the last node's.

    SciPy adds up columns that lie between successive offsets. Every second offset starts
    a column that is wanted, the others one that ends before it starts, for the nodes are
    stored from the last to the first: so nothing is copied, and nodes still come in
    ascending order.
    """

    def __init__(self, offsets: Int64Array, neighbours: Int32Array, values: DoubleArray) -> None:
        degrees = np.diff(offsets)
        ends: Int64Array = np.cumsum(degrees[::-1])[::-1]
        self.begins, self.ends = (ends - degrees).astype(np.int32), ends.astype(np.int32)
        self.neighbours = neighbours[places(offsets[:-1][::-1], degrees[::-1])]
        self.values = values


class _WeightedNodes:
    """Nodes that give their weights to all of their neighbours; room for so many at most."""

    def __init__(self, of: _Neighbours, most: int) -> None:
        self.of = of
        self.offsets = np.empty(2 * most, dtype=np.int32)
        self.weights = np.zeros(2 * most)

    def put(self, nodes: npt.NDArray[np.integer[Any]], weights: DoubleArray) -> None:
        """Take these in place of those of before."""
        taken = 2 * len(nodes)
        self.offsets[:taken:2] = self.of.begins[nodes]
        self.offsets[1:taken:2] = self.of.ends[nodes]
        self.weights[:taken:2] = weights

    def add_up(self, begin: int, end: int, sums: DoubleArray) -> None:
        """Write what the neighbours of some nodes, ascending by code, are given in all."""
        from scipy.sparse._sparsetools import csc_matvec

        sums.fill(0)
        if end > begin:
            wanted, columns = slice(2 * begin, 2 * end), 2 * (end - begin) - 1
            csc_matvec(
                len(sums),
                columns,
                self.offsets[wanted],
                self.of.neighbours,
                self.of.values,
                self.weights[wanted],
                sums,
            )


def scipy_is_there() -> bool:
    """Whether the faster way can be taken; serving does not need SciPy."""
    try:
        from scipy.sparse._sparsetools import csc_matvec  # noqa: F401
    except ImportError:
        return False
    return True
