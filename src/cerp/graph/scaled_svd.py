"""Vectors of items by a scaled SVD of what users took, for sums over histories.

With the interactions R, degrees D_u and D_i, and the leading singular triples

    D_u^-q R D_i^-p ≈ U Σ Vᵀ,     v_i = d_i^r Σ^s V_i,     x_u = Σ_j d_j^-h Σ^s V_j

an item has the vector v_i and someone with the items j the vector x_u. Since it is a sum of
theirs, ``x_u = Σ_j d_j^-(r + h) v_j``, nothing is stored of users (`cerp.graph.history_sums`, which
has 1 + d_j, rounded, in place of d_j). Nothing is trained. With all exponents 0 it is PureSVD
(Cremonesi, Koren and Turrin, RecSys 2010), with another p EigenRec (Nikolakopoulos et al., KAIS
2019), with p = q = r = h = ½ the ideal low-pass filter of GF-CF. Which exponents are best differs
from data to data, and by a lot: validation chooses them.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from cerp.data.ids import Float32Array
from cerp.errors import ConfigError
from cerp.graph.arithmetic import DoubleArray
from cerp.graph.edges import Edges

KEPT = 2
"""Decompositions that are kept: a search goes back to the one before."""
SPARE = 1.5
"""Times as many triples as are asked for are computed together."""
NOTHING = 1e-5
"""As a share of the largest singular value: below, it is rounding."""


@dataclass(frozen=True, order=True)
class Scaling:
    """What is searched on validation."""

    rank: int
    """Singular triples: numbers in a vector."""
    items: float
    """p: how much popular items count less in the decomposition."""
    users: float
    """q: how much users with many items do."""
    lengths: float
    """r: how much longer the vectors of popular items are."""
    spectrum: float
    """s: how much leading directions count more."""
    history: float
    """h: how much popular items count less among those that someone has."""

    @property
    def sum_exponent(self) -> float:
        """R + h: of the weights in the sum of vectors."""
        return self.lengths + self.history


class ScaledSvd:
    """Vectors of the items of a graph, for one scaling after the other.

    Parameters
    ----------
    edges
        The training graph.
    largest_rank
        Of all that will be asked for.
    seed
        Draws the start of the iteration.

    """

    def __init__(self, edges: Edges, largest_rank: int, seed: int = 0) -> None:
        smaller = min(edges.num_users, edges.num_items)
        if not 0 < largest_rank < smaller:
            raise ConfigError(f"the rank must be between 1 and {smaller - 1}, got {largest_rank}")
        self.edges, self.largest_rank, self.seed = edges, largest_rank, seed
        self._found: OrderedDict[tuple[float, float], tuple[DoubleArray, Float32Array]]
        self._found = OrderedDict()

    def vectors(self, scaling: Scaling) -> Float32Array:
        """(number of items, rank); their numbers have a mean square of 1."""
        singular, right = self._triples(scaling)
        spectrum = (singular[: scaling.rank] / singular[0]) ** scaling.spectrum
        degrees = np.maximum(self.edges.item_degrees, 1).astype(np.float64)
        scale = degrees[:, None] ** scaling.lengths * spectrum
        found: DoubleArray = right[:, : scaling.rank] * scale
        even: Float32Array = (found / np.sqrt(np.square(found).mean())).astype(np.float32)
        return even

    def _triples(self, scaling: Scaling) -> tuple[DoubleArray, Float32Array]:
        """Σ, descending, and V, of the rank at least."""
        key = scaling.items, scaling.users
        if key not in self._found or len(self._found[key][0]) < scaling.rank:
            if key not in self._found and len(self._found) == KEPT:
                self._found.popitem(last=False)
            # Of more triples than are wanted now: a search asks for the next rank, too.
            rank = min(self.largest_rank, math.ceil(SPARE * scaling.rank))
            self._found[key] = self._decomposed(*key, rank)
        self._found.move_to_end(key)
        return self._found[key]

    def _decomposed(
        self, items: float, users: float, rank: int
    ) -> tuple[DoubleArray, Float32Array]:
        from scipy.sparse import csr_array
        from scipy.sparse.linalg import svds

        edges = self.edges
        by_item = np.maximum(edges.item_degrees, 1) ** -items
        by_user = np.maximum(edges.user_degrees, 1) ** -users
        values = np.repeat(by_user, edges.user_degrees) * by_item[edges.items]
        shape = (edges.num_users, edges.num_items)
        matrix = csr_array(
            (values.astype(np.float32), edges.items, edges.user_offsets), shape=shape
        )
        start = np.random.default_rng(self.seed).standard_normal(min(shape), dtype=np.float32)
        _, singular, right = svds(matrix, k=rank, v0=start, return_singular_vectors="vh")
        order = np.argsort(-singular, kind="stable")
        # Of a singular value of 0 the vector is anybody's guess.
        known = (singular > NOTHING * singular.max()).astype(np.float32)
        return singular[order].astype(np.float64), (right * known[:, None])[order].T
