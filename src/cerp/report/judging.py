"""Model files judged on the test part: per user, and by the popularity of items.

The figures of a run folder are means; intervals and recall by popularity need the
files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cerp.data.splits import Splits
from cerp.errors import DataError
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.evaluate import Scorer, evaluate
from cerp.evaluation.metrics import Metrics
from cerp.evaluation.popularity import popularity_groups
from cerp.report.runs import Model, Run
from cerp.runtime import Runtime

GROUPS = 10
K = 10


@dataclass(frozen=True, eq=False)
class Judged:
    """How a scorer ranks for the users of the test part."""

    metrics: Metrics
    """NDCG@10 and the like of every user."""
    recall_by_popularity: list[float | None]
    """Recall@10 where only truth of one group counts, the most popular items first; None for a
    group that is in nobody's truth."""

    @property
    def ndcg(self) -> float:
        """Mean NDCG@10."""
        return self.metrics.mean["ndcg@10"]


@dataclass(frozen=True, eq=False)
class Judgements:
    """What the data adds to a report."""

    splits: Splits
    popularity: Judged
    models: dict[Model, Judged]
    """Of every model with a file, unless it was refitted on the test part."""


def judge_models(runs: Sequence[Run], splits: Splits) -> Judgements:
    """Judge the file of every model, on data that must be what the runs were trained on."""
    trained_on = runs[0].result["fingerprint"]
    if splits.fingerprint != trained_on:
        raise DataError(
            f"--data is not what the runs were trained on: its fingerprint is "
            f"{splits.fingerprint[:12]}, theirs {trained_on[:12]}; name the same data, split alike"
        )
    if not len(splits.test):
        raise DataError("--data has no test part to judge on; make the report without it")
    models = {
        model: judge(Runtime(model.file.model), splits)
        for run in runs
        for model in run.models
        if model.file is not None and model.test is not None
    }
    return Judgements(splits, judge(Popularity(splits.train), splits), models)


def judge(scorer: Scorer, splits: Splits) -> Judged:
    """Rank the catalogue for every user of the test part."""
    groups = popularity_groups(splits.train, GROUPS)
    metrics = evaluate(scorer, splits, ks=(K,), groups=groups)
    return Judged(metrics, metrics.recall_by_group[f"recall@{K}"])
