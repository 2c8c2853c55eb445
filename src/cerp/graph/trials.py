"""What a trial of a search is worth: one figure on a fixed sample of validation users."""

from __future__ import annotations

from cerp.data.splits import Splits
from cerp.evaluation.cold_start import with_popularity
from cerp.evaluation.evaluate import Scorer, evaluate, sample_users
from cerp.evaluation.metrics import cutoff_of

SAMPLE = 4000
"""Validation users that judge a trial."""


def figure_of_trial(scorer: Scorer, splits: Splits, metric: str, seed: int) -> float:
    """The metric of a scorer on validation, as `cerp.evaluate` has it of the same users."""
    metrics = evaluate(
        with_popularity(scorer, splits.train),
        splits,
        on="valid",
        ks=(cutoff_of(metric),),
        users=sample_users(splits, "valid", SAMPLE, seed),
    )
    return metrics.mean[metric]
