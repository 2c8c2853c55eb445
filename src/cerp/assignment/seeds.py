"""Rows to begin k-means with, drawn by what points are and not by where they stand; needs torch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cerp.assignment.nearest_rows import (
    nearest_rows,
    squared_distances,
    squared_lengths,
    stretches,
)
from cerp.data.ids import Int64Array
from cerp.data.splitmix import mixed

Words = npt.NDArray[np.uint64]

DRAWS = 4
"""Turns in which the rows of a book are drawn."""


class Seeds:
    """Draws distinct points, in turns, in proportion to ``w_k · D²(x_k)``.

    D² is the squared distance to the nearest point drawn in earlier turns, at first to zero: far
    points come early, as in k-means++, at the cost of one search through the finished book. Equal
    points are one, with their weights added up. The luck of a point is a hash of its entries
    and the seed, so another order of the points makes no difference, and a point that differs a
    little changes no other's luck.
    """

    def __init__(self, points: Tensor, weights: Tensor, step: float, seed: int) -> None:
        hashes = _hashes(points, step)
        distinct, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        self.hashes: Words = distinct
        self.first: Int64Array = first
        self.weights = np.bincount(group, weights=weights.cpu().numpy(), minlength=len(first))
        self.seed = seed

    def draw(self, points: Tensor, rows: int, book: int) -> Tensor:
        """At most so many of the points, which are what earlier books have left of them."""
        candidates = points[torch.from_numpy(self.first).to(points.device)]
        distance = squared_lengths(candidates)
        drawn = points.new_zeros((0, points.shape[1]))
        turns = min(DRAWS, rows)
        for turn in range(turns):
            chance = distance.cpu().numpy() * self.weights
            possible = np.flatnonzero(chance > 0)
            # The smallest of exponential variables at these rates: draws without replacement.
            luck = -np.log(self._uniform(book * DRAWS + turn)[possible]) / chance[possible]
            wanted = rows * (turn + 1) // turns - len(drawn)
            chosen = possible[np.argsort(luck, kind="stable")[:wanted]]
            if not len(chosen):
                break
            batch = candidates[torch.from_numpy(chosen).to(points.device)]
            drawn = torch.cat([drawn, batch])
            nearest = squared_distances(candidates, batch, nearest_rows(candidates, batch))
            distance = torch.minimum(distance, nearest)
        return drawn

    def _uniform(self, draw: int) -> npt.NDArray[np.float64]:
        """A number in (0, 1) for each distinct point, by its hash, the seed and the draw."""
        key = mixed(np.array([self.seed, draw], dtype=np.uint64) + np.uint64(1))
        words = mixed(self.hashes ^ mixed(key[:1] + (key[1:] << np.uint64(1))))
        return ((words >> np.uint64(12)).astype(np.float64) + 0.5) / 2.0**52


def _hashes(points: Tensor, step: float) -> Words:
    """A 64-bit hash of each point's entries, in steps of the grid."""
    factors = mixed(np.arange(1, points.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    found = np.empty(len(points), dtype=np.uint64)
    for part in stretches(points):
        whole = (points[part] / step).round_().to(torch.int64).cpu().numpy()
        found[part] = whole.astype(np.uint64) @ factors
    return mixed(found)
