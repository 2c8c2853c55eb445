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
from cerp.data.ids import Int64Array

DoubleArray = npt.NDArray[np.float64]

COLUMN_BLOCK = 32
"""Columns that go through all layers together. Memory is that of a few such blocks; of 16 to
128 columns none is clearly faster, with either product."""


def propagate(table: FloatArray, seen: Seen, layers: int) -> FloatArray:
    """V of a table of users, then items; the edges are what users have seen."""
    num_users = len(seen.offsets) - 1
    degree = np.concatenate(
        [np.diff(seen.offsets), np.bincount(seen.items, minlength=len(table) - num_users)]
    )
    scale = np.zeros((len(table), 1))
    np.divide(1, np.sqrt(degree), out=scale[:, 0], where=degree > 0)
    times = neighbour_sums(seen, num_users, degree)
    result = np.empty_like(table)
    for start in range(0, table.shape[1], COLUMN_BLOCK):
        columns = slice(start, start + COLUMN_BLOCK)
        layer = table[:, columns].astype(np.float64)
        total = layer.copy()
        for _ in range(layers):
            layer = scale * times(scale * layer)
            total += layer
        result[:, columns] = total / (layers + 1)
    return result


class Product(Protocol):
    """``A X``: for each node the sum over its neighbours, in ascending order."""

    def __call__(self, table: DoubleArray, /) -> DoubleArray:
        """The sums, in the shape of the table."""


def neighbour_sums(seen: Seen, num_users: int, degree: Int64Array) -> Product:
    """The product with A, by SciPy where it is installed."""
    user = np.repeat(np.arange(num_users, dtype=np.int32), degree[:num_users])
    neighbours = np.concatenate(
        [seen.items + np.int32(num_users), user[np.argsort(seen.items, kind="stable")]]
    )
    offsets = np.concatenate([[0], np.cumsum(degree)])
    try:
        from scipy.sparse import csr_array
    except ImportError:
        return NumpySums(neighbours, offsets)
    adjacency = csr_array((np.ones(len(neighbours)), neighbours, offsets), shape=2 * degree.shape)
    return adjacency.__matmul__  # type: ignore[no-any-return]


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
