"""Is one scorer better than another, or was it luck with the users? A paired bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cerp.errors import ConfigError
from cerp.evaluation.metrics import FloatArray, Metrics

BOOTSTRAP_DRAWS = 2**20
"""Draws held in memory at a time."""


@dataclass(frozen=True)
class Difference:
    """How much better the first of two scorers is, with its bootstrap interval."""

    metric: str
    mean: float
    """Mean over users of first minus second."""
    low: float
    high: float
    confidence: float
    """Share of the resampled means that lie between low and high."""
    users: int
    samples: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(
    first: Metrics,
    second: Metrics,
    metric: str = "ndcg@10",
    *,
    samples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Difference:
    """Percentile interval of the mean difference of two scorers, judged on the same users.

    Users are drawn with replacement, both scores of a user together, so that
    what makes a user easy or hard for both does not blur the difference.

    Parameters
    ----------
    first, second
        What `cerp.evaluate` gave for each of the scorers, on the same part and users.
    metric
        What to compare them by, such as ``"recall@20"``.
    samples
        How often the users are drawn anew.
    seed
        Of the draws.
    confidence
        Share of the resampled means that the interval holds.

    Returns
    -------
    Difference
        Mean of first minus second, with its interval; ``is_clear`` says whether it leaves zero out.

    """
    for metrics in (first, second):
        metrics.refuse_unknown(metric)
    if first.on != second.on or not np.array_equal(first.users, second.users):
        raise ConfigError(
            f"a paired comparison needs the same users and part: {len(first.users):,} on "
            f"{first.on} against {len(second.users):,} on {second.on}; evaluate both alike"
        )
    if samples < 1 or not 0 < confidence < 1:
        raise ConfigError(
            f"the bootstrap needs samples >= 1 and 0 < confidence < 1, "
            f"got {samples} and {confidence}"
        )
    difference = first.per_user[metric] - second.per_user[metric]
    means = _resampled_means(difference, samples, np.random.default_rng(seed))
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Difference(
        metric=metric,
        mean=float(difference.mean()),
        low=float(low),
        high=float(high),
        confidence=confidence,
        users=len(difference),
        samples=samples,
    )


def _resampled_means(values: FloatArray, samples: int, rng: np.random.Generator) -> FloatArray:
    rows = max(1, BOOTSTRAP_DRAWS // len(values))
    means = np.empty(samples)
    for start in range(0, samples, rows):
        size = (min(rows, samples - start), len(values))
        drawn = values.take(rng.integers(len(values), size=size))
        means[start : start + rows] = drawn.mean(axis=1)
    return means
