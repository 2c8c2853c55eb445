"""Means and deviations over seeds, and which differences of a table hold.

'Better' means: the interval of the difference, from a bootstrap over users and seeds together
(`cerp.evaluation.significance`), leaves zero out after Holm's correction over the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev, variance
from typing import Literal, TypeVar

from scipy.special import stdtr

from cerp.comparison.metrics import MAIN_METRIC
from cerp.evaluation.metrics import Metrics
from cerp.evaluation.significance import LEVEL, Difference, difference, holm, resampled

Mark = Literal["better", "worse", "not clear", "too few seeds", "users only"]
"""``too few seeds``: one of the two is trained, with fewer than `ENOUGH_SEEDS`. ``users only``: an
interval of an earlier version, in which seeds were not drawn."""
Key = TypeVar("Key")

ENOUGH_SEEDS = 3
"""Fewer say too little of how seeds differ."""


def spread(values: Sequence[float]) -> str:
    """``mean ± standard deviation`` (of a sample: n - 1); a single value stands alone."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{mean(values):.4f} ± {stdev(values):.4f}"


@dataclass(frozen=True, eq=False)
class Judged:
    """The seeds of one method in one cell of a table."""

    seeds: tuple[Metrics, ...]
    is_random: bool = True
    """Whether a seed changes anything: not for what is computed from the data alone."""

    @property
    def has_enough_seeds(self) -> bool:
        """Whether its spread over seeds is known, or is none."""
        return not self.is_random or len(self.seeds) >= ENOUGH_SEEDS


def differences(pairs: Mapping[Key, tuple[Judged, Judged]]) -> dict[Key, Difference]:
    """First minus second in `MAIN_METRIC` of each pair; all were judged on the same users."""
    runs = {id(judged): judged for pair in pairs.values() for judged in pair}
    if not runs:
        return {}
    everything = [metrics for judged in runs.values() for metrics in judged.seeds]
    drawn = iter(resampled(everything, MAIN_METRIC))
    own = {name: [next(drawn) for _ in judged.seeds] for name, judged in runs.items()}
    users = len(everything[0].users)
    return {
        key: difference(own[id(first)], own[id(second)], MAIN_METRIC, users=users)
        for key, (first, second) in pairs.items()
    }


def marks(pairs: Mapping[Key, tuple[Judged, Judged]]) -> dict[Key, Mark]:
    """What can be said of the first of each pair, with Holm's correction over all of them."""
    enough = {key: pair for key, pair in pairs.items() if all(one.has_enough_seeds for one in pair)}
    found = {key: (one.mean, one.p_value) for key, one in differences(enough).items()}
    few: dict[Key, Mark] = dict.fromkeys(pairs, "too few seeds")
    return few | corrected(found)


def corrected(found: Mapping[Key, tuple[float, float]]) -> dict[Key, Mark]:
    """From the differences of a table and their p-values to what holds after Holm's correction."""
    after = holm([p_value for _, p_value in found.values()])
    return {
        key: verdict(mean_difference, p_value)
        for (key, (mean_difference, _)), p_value in zip(found.items(), after, strict=True)
    }


def verdict(mean_difference: float, p_value: float) -> Mark:
    """What a difference says whose p-value is corrected."""
    if p_value > LEVEL:
        return "not clear"
    return "better" if mean_difference > 0 else "worse"


Seeds = Sequence[float] | float
"""What a method reaches with each seed; one number, if no seed changes it."""


def t_test(first: Seeds, second: Seeds) -> float | None:
    """P of Welch's t-test (two-sided) between the seeds of two methods.

    ``t = (x - y) / √(v/n + w/m)`` with the means x and y of n and m seeds and their variances v
    and w; that of a plain number is 0. None where a method has a single seed, or where no seed
    makes a difference.
    """
    drawn = [side for side in (first, second) if not isinstance(side, float)]
    if any(len(values) < 2 for values in drawn):
        return None
    parts = [(variance(values) / len(values), len(values) - 1) for values in drawn]
    squared = sum(part for part, _ in parts)
    if not squared:
        return None
    freedom = squared**2 / sum(part**2 / free for part, free in parts)
    x, y = (side if isinstance(side, float) else mean(side) for side in (first, second))
    return float(2 * stdtr(freedom, -abs(x - y) / math.sqrt(squared)))
