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
from cerp.reports.finished_runs import FinishedRun, Model
from cerp.runtime import Runtime

GROUPS = 10


@dataclass(frozen=True, eq=False)
class Judgements:
    """What the data adds to a report."""

    splits: Splits
    popularity: Metrics
    models: dict[Model, Metrics]
    """Of every model with a file, unless it was refitted on the test part."""
    k: int
    """Length of the lists."""


def judge_models(runs: Sequence[FinishedRun], splits: Splits, *, k: int) -> Judgements:
    """Judge the file of every model, on data that must be what the runs were trained on."""
    trained_on = runs[0].origin.fingerprint
    if splits.fingerprint != trained_on:
        raise DataError(
            f"the data is not what the runs were trained on: its fingerprint is "
            f"{splits.fingerprint[:12]}, theirs {trained_on[:12]}; name the same data, split alike"
        )
    if not len(splits.test):
        raise DataError("the data has no test part to judge on; make the report without it")
    models = {
        model: judge(Runtime(model.file.model), splits, k)
        for run in runs
        for model in run.models
        if model.file is not None and model.test is not None
    }
    return Judgements(splits, judge(Popularity(splits.train), splits, k), models, k)


def judge(scorer: Scorer, splits: Splits, k: int = 10) -> Metrics:
    """Rank the catalogue for every user of the test part; recall also by popularity of items."""
    groups = popularity_groups(splits.train, GROUPS)
    return evaluate(scorer, splits, ks=(k,), groups=groups)
