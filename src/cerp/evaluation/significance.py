"""Is one scorer better than another, or was it luck? A paired bootstrap over users and seeds.

A scorer that is trained differs from seed to seed, and users differ from each other. Each draw
of the bootstrap takes users anew, the same for both scorers, and seeds anew, for each of them
apart. Several comparisons of one table are corrected by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cerp.errors import ConfigError
from cerp.evaluation.metrics import FloatArray, Metrics

BOOTSTRAP_DRAWS = 2**20
"""Draws held in memory at a time."""
SAMPLES = 10_000
"""How often users and seeds are drawn: the smallest p is 2 / 10,001, small enough for Holm's
correction over 250 comparisons."""
LEVEL = 0.05
"""Of significance."""


@dataclass(frozen=True)
class Difference:
    """How much better the first of two scorers is, with its bootstrap interval."""

    metric: str
    mean: float
    """Mean over users and seeds of first minus second."""
    low: float
    high: float
    confidence: float
    """Share of the resampled means that lie between low and high."""
    users: int
    samples: int
    seeds: tuple[int, int] = (1, 1)
    """Of each scorer. One that has a single one is taken as it is: only users are drawn for it."""
    p_value: float = 1.0
    """The smallest level at which the interval of confidence ``1 - level`` leaves zero out."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class Resampled:
    """One seed of a scorer: its mean over users, and over each draw of them."""

    mean: float
    draws: FloatArray


def paired_bootstrap(
    first: Metrics | Sequence[Metrics],
    second: Metrics | Sequence[Metrics],
    metric: str = "ndcg@10",
    *,
    samples: int = SAMPLES,
    seed: int = 0,
    confidence: float = 1 - LEVEL,
) -> Difference:
    """Percentile interval of the mean difference of two scorers, judged on the same users.

    Users are drawn with replacement, both scores of a user together, so that
    what makes a user easy or hard for both does not blur the difference. Where
    a scorer was trained with n > 1 seeds, each draw has n - 1 of them, with
    replacement: so its variance over seeds is s²/n, that of their mean. (A draw
    of n would make it (n - 1)/n of that, a third too small for three seeds.)

    Parameters
    ----------
    first, second
        What `cerp.evaluate` gave for each of the scorers, on the same part and users: one, or
        one for each seed.
    metric
        What to compare them by, such as ``"recall@20"``.
    samples
        How often users and seeds are drawn anew.
    seed
        Of the draws.
    confidence
        Share of the resampled means that the interval holds.

    Returns
    -------
    Difference
        Mean of first minus second, with its interval; ``is_clear`` says whether it leaves zero out.

    """
    mine, other = _listed(first), _listed(second)
    found = resampled([*mine, *other], metric, samples=samples, seed=seed)
    return difference(
        found[: len(mine)],
        found[len(mine) :],
        metric,
        users=len(mine[0].users),
        seed=seed,
        confidence=confidence,
    )


def resampled(
    judged: Sequence[Metrics], metric: str, *, samples: int = SAMPLES, seed: int = 0
) -> list[Resampled]:
    """The mean of each over every draw of users, who are the same for all of them.

    A table is resampled by one call, and its pairs are then compared by `difference`.
    """
    for metrics in judged:
        metrics.refuse_unknown(metric)
        if metrics.on != judged[0].on or not np.array_equal(metrics.users, judged[0].users):
            raise ConfigError(
                f"a paired comparison needs the same users and part: {len(judged[0].users):,} on "
                f"{judged[0].on} against {len(metrics.users):,} on {metrics.on}; evaluate both "
                "alike"
            )
    if samples < 1:
        raise ConfigError(f"the bootstrap needs samples >= 1, got {samples}")
    values = np.array([metrics.per_user[metric] for metrics in judged])
    means = _resampled_means(values, samples, np.random.default_rng([seed, 0]))
    return [Resampled(float(own.mean()), draws) for own, draws in zip(values, means, strict=True)]


def difference(
    first: Sequence[Resampled],
    second: Sequence[Resampled],
    metric: str,
    *,
    users: int,
    seed: int = 0,
    confidence: float = 1 - LEVEL,
) -> Difference:
    """First minus second, each the seeds of a scorer; users and seeds are drawn together."""
    samples = len(first[0].draws)
    if not 0 < confidence < 1:
        raise ConfigError(f"the bootstrap needs 0 < confidence < 1, got {confidence}")
    rng = np.random.default_rng([seed, 1])
    means = np.sort(_seeds_drawn(first, rng) - _seeds_drawn(second, rng))
    # Sums of equal values may differ in their last bits, which are no difference of scorers.
    means = np.round(means, 12)
    # The k-th smallest and largest: they leave zero out where p is at most 1 - confidence.
    k = int((1 - confidence) * (samples + 1) / 2 + 1e-9)
    if k < 1:
        raise ConfigError(
            f"{samples} draws are too few for a confidence of {confidence}; take samples of "
            f"{math.ceil(2 / (1 - confidence) - 1 - 1e-9)} or more"
        )
    beyond = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    return Difference(
        metric=metric,
        mean=float(np.mean([one.mean for one in first]) - np.mean([one.mean for one in second])),
        low=float(means[k - 1]),
        high=float(means[-k]),
        confidence=confidence,
        users=users,
        samples=samples,
        seeds=(len(first), len(second)),
        p_value=float(min(1.0, 2 * (beyond + 1) / (samples + 1))),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction (1979): the p-values of a table, each to be held against `LEVEL`.

    ``p̃₍ᵢ₎ = max over j ≤ i of min(1, (m - j + 1) p₍ⱼ₎)``, with p₍₁₎ ≤ ... ≤ p₍ₘ₎. Whatever is
    true, the chance of even one wrong verdict in the table is then at most the level.
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for done, place in enumerate(np.argsort(p_values, kind="stable").tolist()):
        largest = max(largest, min(1.0, (len(p_values) - done) * p_values[place]))
        corrected[place] = largest
    return corrected


def _listed(judged: Metrics | Sequence[Metrics]) -> list[Metrics]:
    return [judged] if isinstance(judged, Metrics) else list(judged)


def _seeds_drawn(runs: Sequence[Resampled], rng: np.random.Generator) -> FloatArray:
    """The mean over n - 1 seeds in each draw; of a single seed, that seed."""
    draws = np.array([one.draws for one in runs])
    if len(runs) == 1:
        mean: FloatArray = draws[0]
        return mean
    samples = draws.shape[1]
    total = np.zeros(samples)
    for _ in range(len(runs) - 1):
        total += draws[rng.integers(len(runs), size=samples), np.arange(samples)]
    return total / (len(runs) - 1)


def _resampled_means(values: FloatArray, samples: int, rng: np.random.Generator) -> FloatArray:
    """Of (K, U) values, the K means over each draw of U users: (K, samples)."""
    users = values.shape[1]
    rows = max(1, BOOTSTRAP_DRAWS // users)
    means = np.empty((len(values), samples))
    for start in range(0, samples, rows):
        size = min(rows, samples - start)
        drawn = rng.integers(users, size=(size, users)) + users * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * users).reshape(size, users)
        means[:, start : start + size] = values @ counts.T.astype(np.float64) / users
    return means
