"""The widths among which OptEmbed's evolution chooses, within a budget; plain NumPy."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq

from cerp.data.ids import Int64Array
from cerp.errors import BudgetError

FloatArray = npt.NDArray[np.float64]

NEAR = 0.95
"""Candidates are to use at least this share of the budget."""
TRIES = 100
"""Draws before the budget is held to be too tight for chance."""


class WidthSpace(ABC):
    """Widths D_g from 1 to d for genes g with n_g kept rows each: ``Σ_g n_g·D_g <= t``."""

    def __init__(self, kept: Int64Array, dim: int, limit: int) -> None:
        self.kept, self.dim, self.limit = kept, dim, limit
        smallest = int(kept.sum())
        if limit < smallest:
            raise BudgetError(
                f"the supernet keeps {smallest:,} rows, more than the budget of {limit:,} values; "
                "raise the weight of the threshold penalty or the thresholds' learning rate, or "
                f"give a budget of at least {smallest:,}"
            )

    def count(self, widths: Int64Array) -> int:
        """``Σ_g n_g·D_g``: how many values are kept."""
        return int(self.kept @ widths)

    def fits(self, widths: Int64Array) -> bool:
        """Whether that is within the budget."""
        return self.count(widths) <= self.limit

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Int64Array:
        """Random widths within the budget."""


class FieldWidths(WidthSpace):
    """A width for all users and one for all items, using 95% of the budget where any pair does.

    So few pairs are left that evolution sees most of them. Without the lower
    bound it is drawn to narrow ones, which a supernet knows better from training, and which
    waste the budget.
    """

    def __init__(self, kept: Int64Array, dim: int, limit: int) -> None:
        super().__init__(kept, dim, limit)
        widths = np.arange(1, dim + 1)
        counts = np.add.outer(kept[0] * widths, kept[1] * widths)
        fitting = counts <= limit
        near = fitting & (counts >= NEAR * limit)
        self.least = NEAR * limit if near.any() else 0.0
        self.pairs: Int64Array = np.argwhere(near if near.any() else fitting) + 1

    def fits(self, widths: Int64Array) -> bool:
        """Whether a pair is within the budget, and near enough to it."""
        return self.least <= self.count(widths) <= self.limit

    def draw(self, rng: np.random.Generator) -> Int64Array:
        """Any pair that fits, all alike."""
        chosen: Int64Array = self.pairs[rng.integers(len(self.pairs))]
        return chosen


class EntityWidths(WidthSpace):
    """A width for every entity."""

    def __init__(self, kept: Int64Array, dim: int, limit: int) -> None:
        super().__init__(kept, dim, limit)
        # In the middle of the share of the budget that is wanted: about half of the draws fit.
        mean = (1 + NEAR) / 2 * limit / max(int(kept.sum()), 1)
        self.cdf = np.cumsum(tilted_shares(dim, mean))

    def draw(self, rng: np.random.Generator) -> Int64Array:
        """Widths from a geometric distribution with the mean that the budget allows."""
        for _ in range(TRIES):
            below = np.searchsorted(self.cdf, rng.random(len(self.kept)), side="right")
            widths = np.minimum(below + 1, self.dim).astype(np.int64)
            if self.fits(widths):
                return widths
        # The least there is, which fits whatever the limit.
        return np.ones(len(self.kept), dtype=np.int64)


def tilted_shares(dim: int, mean: float | None) -> FloatArray:
    """``p(D) ∝ a^(d − D)`` on 1..d, with a such that D has this mean; uniform without one."""
    widths = np.arange(1, dim + 1)

    def shares(log_base: float) -> FloatArray:
        powers = log_base * (dim - widths)
        weights = np.exp(powers - powers.max())
        normalised: FloatArray = weights / weights.sum()
        return normalised

    def mean_of(log_base: float) -> float:
        return float(shares(log_base) @ widths)

    if mean is None or dim == 1:
        return shares(0.0)
    steepest = 50.0
    if not mean_of(steepest) < mean < mean_of(-steepest):
        return shares(steepest if mean < dim / 2 else -steepest)
    return shares(brentq(lambda log_base: mean_of(log_base) - mean, -steepest, steepest))
