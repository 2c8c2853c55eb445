"""A filter made sharper: what items owe to items like them is taken away again.

The plain filter ``s = K D^-p x`` with ``K = Rᵀ D_u^-q R`` reaches an item by paths through all that
resembles it, and counts a taste as often as there are items that share it. A step

    y ← (I − t K D^-m) y,        taken n times, from y = s

subtracts what the items reached would themselves lend to each other: the first terms of the series
of an inverse, so that a few passes over the graph do much of what a regression between all items
does (EASE), and nothing is stored for it but m, t and n.

Its arithmetic is defined to the bit, like that of `cerp.graph.filter`; all numbers are float64.
A step is

1. ``z_v = Σ y_i · d_i^-m`` over the items i of user v, ascending i;
2. ``h_v = z_v · d_v^-q``;
3. ``y_i ← y_i − t · Σ h_v`` over the users v of item i, ascending v.

In the end what is below 0 becomes 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from cerp.data.ids import Int64Array
from cerp.errors import ConfigError
from cerp.graph.arithmetic import DoubleArray, inverse_power, nearest_exponent
from cerp.graph.edges import Edges
from cerp.graph.two_hops import scipy_is_there

MOST_TIMES, LARGEST_STRENGTH = 2, 1024.0
"""A sum of the filter is at most the number of edges, below 2³¹, and a step makes it larger by that
number times the strength at most: so F stays within 32-bit floats whatever a file says."""
BATCH = 32
"""Rows that are sharpened together: the graph is read once for all of them."""
POWER_STEPS = 30
"""Of the iteration for the spectral radius; the strength that is stored is what it is."""


@dataclass(frozen=True)
class Sharpening:
    """How a filter is sharpened."""

    m: float
    """How much the degree of an item counts against what it lends; a multiple of 1/32."""
    strength: float
    """t, how much of that is taken away."""
    times: int
    """n, how often."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", nearest_exponent(self.m))
        if not 0 <= self.strength <= LARGEST_STRENGTH or not 1 <= self.times <= MOST_TIMES:
            raise ConfigError(
                f"a filter is sharpened by a strength from 0 to {LARGEST_STRENGTH:,.0f}, 1 to "
                f"{MOST_TIMES} times, got {self.strength} and {self.times}"
            )


class ItemHops:
    """``K D^-m y``: what items lend to items, by way of the users who have both.

    Parameters
    ----------
    edges
        The training graph.
    q, m
        Exponents of the users in the middle and of the items that lend.
    use_scipy
        False: NumPy alone, as where SciPy is not installed. Both agree to the bit.

    """

    def __init__(self, edges: Edges, q: float, m: float, *, use_scipy: bool = True) -> None:
        self.edges = edges
        self.middle = inverse_power(edges.user_degrees, q)
        self.lent = inverse_power(edges.item_degrees, m)
        self.use_scipy = use_scipy and scipy_is_there()

    def of(self, strengths: DoubleArray) -> DoubleArray:
        """For some columns y, (num_items, number of columns)."""
        weighted = strengths * self.lent[:, None]
        if not self.use_scipy:
            return np.stack([self._by_numpy(column) for column in weighted.T], axis=1)
        taken, taken_by = self._matrices
        result: DoubleArray = taken_by @ ((taken @ weighted) * self.middle[:, None])
        return result

    def radius(self) -> float:
        """The largest eigenvalue of ``K D^-m``, nearly: what strengths are measured in."""
        vector = (self.edges.item_degrees > 0).astype(np.float64)[:, None]
        radius = 0.0
        for _ in range(POWER_STEPS):
            vector = self.of(vector)
            radius = float(np.linalg.norm(vector))
            if radius == 0:
                return 1.0
            vector /= radius
        return radius

    def _by_numpy(self, weighted: DoubleArray) -> DoubleArray:
        edges, users = self.edges, self._user_of_edge
        reach = np.bincount(users, weights=weighted[edges.items], minlength=edges.num_users)
        spread = (reach * self.middle)[users]
        sums = np.bincount(edges.items, weights=spread, minlength=edges.num_items)
        return sums.astype(np.float64, copy=False)  # without edges they are integers

    @cached_property
    def _user_of_edge(self) -> Int64Array:
        return np.repeat(np.arange(self.edges.num_users), self.edges.user_degrees)

    @cached_property
    def _matrices(self) -> tuple[Any, Any]:
        """The items of users and the users of items, as SciPy's matrices of ones."""
        from scipy.sparse import csr_array

        edges, ones = self.edges, np.ones(len(self.edges))
        by_user = (ones, edges.items, edges.user_offsets.astype(np.int32))
        by_item = (ones, edges.users, edges.item_offsets.astype(np.int32))
        shape = (edges.num_users, edges.num_items)
        return csr_array(by_user, shape=shape), csr_array(by_item, shape=shape[::-1])


def sharpened(
    sums: Iterator[DoubleArray], hops: ItemHops, sharpening: Sharpening
) -> Iterator[DoubleArray]:
    """What becomes of the sums of some histories; rows are the caller's."""
    while rows := [row.copy() for row in islice(sums, BATCH)]:
        found = np.stack(rows, axis=1)
        for _ in range(sharpening.times):
            found -= sharpening.strength * hops.of(found)
        np.maximum(found, 0, out=found)
        yield from np.ascontiguousarray(found.T)
