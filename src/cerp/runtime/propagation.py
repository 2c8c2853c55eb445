"""LightGCN's vectors from its graph, with NumPy alone or, twice as fast, with SciPy.

``V = 1/(L+1) · Σ_{l=0..L} Â^l E`` with ``Â = S A S``: A the 0/1 adjacency of users
and items, S diagonal with ``s_n = degree_n^(-1/2)``, 0 for a node without edges.
Computed in float64 and rounded to float32 once, at the end. Neighbours are added
in ascending order: the result is the same bit by bit with and without SciPy.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from cerp.artifact.model import FloatArray, Seen
from cerp.cores import shared_out
from cerp.data.ids import Int64Array

DoubleArray = npt.NDArray[np.float64]

COLUMN_BLOCK = {"scipy": 8, "numpy": 32}
"""Columns that go through all layers together, by who multiplies. Memory is that of a few such
blocks. Eight of them are one line of cache for each node, and so the fastest with SciPy; NumPy
has to do as much for a narrow row as for a wide one."""


def propagate(table: FloatArray, seen: Seen, layers: int) -> FloatArray:
    """V of a table of users, then items; the edges are what users have seen."""
    return Propagation(seen, len(table) - len(seen.offsets) + 1, layers).of(table)


class Propagation:
    """``1/(L+1) · Σ_{l=0..L} Â^l`` over the graph of what users have seen."""

    def __init__(self, seen: Seen, num_items: int, layers: int) -> None:
        self.layers = layers
        self.degree = np.concatenate(
            [np.diff(seen.offsets), np.bincount(seen.items, minlength=num_items)]
        )
        self.scale = np.zeros((len(self.degree), 1))
        np.divide(1, np.sqrt(self.degree), out=self.scale[:, 0], where=self.degree > 0)
        self.times, self.width = neighbour_sums(seen, num_items)

    def through(self, layer: DoubleArray) -> DoubleArray:
        """Of columns that go through all layers together; they are not kept."""
        total = layer.copy()
        for _ in range(self.layers):
            layer *= self.scale
            layer = self.times(layer)
            layer *= self.scale
            total += layer
        total /= self.layers + 1
        return total

    def of(self, table: FloatArray) -> FloatArray:
        """Of all columns, some at a time, rounded to the precision of the table."""
        result = np.empty_like(table)

        def fill(start: int) -> None:
            columns = slice(start, start + self.width)
            result[:, columns] = self.through(table[:, columns].astype(np.float64))

        shared_out(fill, range(0, table.shape[1], self.width))
        return result


class Product(Protocol):
    """``A X``: for each node the sum over its neighbours, in ascending order."""

    def __call__(self, table: DoubleArray, /) -> DoubleArray:
        """The sums, in the shape of the table."""


def neighbour_sums(seen: Seen, num_items: int) -> tuple[Product, int]:
    """The product with A, by SciPy where it is installed, and the `COLUMN_BLOCK` that suits it."""
    try:
        return ScipySums(seen, num_items), COLUMN_BLOCK["scipy"]
    except ImportError:
        return NumpySums.of(seen, num_items), COLUMN_BLOCK["numpy"]


class ScipySums:
    """Sums over the items of users and over the users of items: two products of half the nodes.

    The vectors that one product gathers then take half the cache.
    """

    def __init__(self, seen: Seen, num_items: int) -> None:
        from scipy.sparse import csr_array

        shape = len(seen.offsets) - 1, num_items
        self.items_of_users = csr_array(
            (np.ones(len(seen.items)), seen.items, seen.offsets), shape=shape
        )
        self.users_of_items = self.items_of_users.tocsc().T
        self.num_users = shape[0]

    def __call__(self, table: DoubleArray, /) -> DoubleArray:
        """The sums, in the shape of the table."""
        result = np.empty_like(table)
        result[: self.num_users] = self.items_of_users @ table[self.num_users :]
        result[self.num_users :] = self.users_of_items @ table[: self.num_users]
        return result


class NumpySums:
    """Sums over neighbours: the first of every node, then the second of those that have one, ...

    With nodes sorted by degree those are prefixes, and no more than one row for
    each node is ever gathered. Half the time of ``np.add.reduceat`` over edges.
    """

    def __init__(self, neighbours: npt.NDArray[np.int32], offsets: Int64Array) -> None:
        degree = np.diff(offsets)
        self.nodes = np.argsort(-degree, kind="stable")
        self.first = offsets[self.nodes]
        self.counts = np.searchsorted(
            -degree[self.nodes], -np.arange(1, degree.max(initial=0) + 1), side="right"
        )
        self.neighbours = neighbours.astype(np.intp)

    @classmethod
    def of(cls, seen: Seen, num_items: int) -> NumpySums:
        """Sums over the graph of what users have seen."""
        counts = np.diff(seen.offsets)
        user = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        degree = np.concatenate([counts, np.bincount(seen.items, minlength=num_items)])
        neighbours = np.concatenate(
            [seen.items + np.int32(len(counts)), user[np.argsort(seen.items, kind="stable")]]
        )
        return cls(neighbours, np.concatenate([[0], np.cumsum(degree)]))

    def __call__(self, table: DoubleArray, /) -> DoubleArray:
        """The sums, in the shape of the table."""
        sums = np.zeros_like(table)
        gathered = np.empty_like(table)
        for place, count in enumerate(self.counts):
            chosen = self.neighbours[self.first[:count] + place]
            # Clipping skips a check of bounds that costs as much as the gathering.
            np.take(table, chosen, axis=0, out=gathered[:count], mode="clip")
            sums[:count] += gathered[:count]
        result = np.empty_like(table)
        result[self.nodes] = sums
        return result
