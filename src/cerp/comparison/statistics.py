"""Means and deviations over seeds, and marks from the paired bootstrap over users."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Literal

import numpy as np

from cerp.errors import ConfigError
from cerp.evaluation.metrics import Metrics
from cerp.evaluation.significance import paired_bootstrap

Mark = Literal["better", "worse", "not clear"]

DRAWS = 2_000
"""Of the bootstrap behind a mark: its 95% bounds need no more, and a table has many marks."""


def spread(values: Sequence[float]) -> str:
    """``mean ± standard deviation`` (of a sample: n - 1); a single value stands alone."""
    if len(values) == 1:
        return f"{values[0]:.4f}"
    return f"{mean(values):.4f} ± {stdev(values):.4f}"


def over_seeds(judged: Sequence[Metrics]) -> Metrics:
    """Every user's mean over the seeds, which must have been judged on the same users."""
    first = judged[0]
    if any(not np.array_equal(first.users, other.users) for other in judged):
        raise ConfigError(
            "the seeds of a cell were judged on different users; were its files exchanged?"
        )
    per_user = {
        name: np.mean([metrics.per_user[name] for metrics in judged], axis=0)
        for name in first.per_user
    }
    return Metrics(first.on, first.users, per_user, {}, {}, {})


def mark(mine: Metrics, other: Metrics) -> Mark:
    """Whether NDCG@10 is better, worse, or not clearly different (95%)."""
    found = paired_bootstrap(mine, other, samples=DRAWS)
    return verdict(found.low, found.high)


def verdict(low: float, high: float) -> Mark:
    """What an interval of a difference says."""
    if low <= 0 <= high:
        return "not clear"
    return "better" if low > 0 else "worse"
