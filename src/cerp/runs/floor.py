"""What every model has to beat: the most popular items for everybody."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from cerp.data.splits import PARTS, Part
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.evaluate import cutoffs_with, evaluate, users_to_judge
from cerp.runs.fitted_model import FittedModel
from cerp.runs.folder import RunFolder
from cerp.runs.products import Judged

POPULARITY = "popularity"
"""In the place of a budget, in the name of its file."""


def popularity_floor(
    models: Sequence[FittedModel], folder: RunFolder | None = None
) -> dict[str, dict[str, Any]]:
    """The figures of popularity where those of the models are: ``["test"]["ndcg@10"]``.

    They are kept in the folder of the run, as those of its models.
    """
    if folder and (judged := folder.judged(POPULARITY)):
        return judged.metrics
    started = time.monotonic()
    model = models[0]
    ks = cutoffs_with(model.config.selection_metric)
    scorer = Popularity(model.splits.train)
    parts: list[Part] = [part for part in PARTS if part in model.metrics]
    metrics: dict[str, dict[str, Any]] = {
        part: evaluate(
            scorer,
            model.splits,
            on=part,
            ks=ks,
            users=users_to_judge(model.splits, part, model.config.judge_users),
        ).summary()
        for part in parts
    }
    judged = Judged(metrics, round(time.monotonic() - started, 2))
    if folder:
        folder.write_judged(POPULARITY, judged)
    return metrics


def below_floor(model: FittedModel, floor: dict[str, dict[str, Any]]) -> str | None:
    """What to say of a model that popularity beats, on test or else on validation."""
    metric = model.config.selection_metric
    for part in ("test", "valid"):
        if part in model.metrics and part in floor:
            own, least = model.metrics[part][metric], floor[part][metric]
            if own >= least:
                return None
            return (
                f"{model.config.method} at {model.budget} has {metric} {own:.4f} on {part}, below "
                f"popularity with {least:.4f}: recommend the most popular items instead, or train "
                "longer, or with more data"
            )
    return None
