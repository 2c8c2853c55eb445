"""What every model has to beat: the most popular items for everybody."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from cerp.data.splits import PARTS, Part
from cerp.evaluation.baselines import Popularity, RecentPopularity
from cerp.evaluation.evaluate import Scorer, cutoffs_with, evaluate, users_to_judge
from cerp.runs.fitted_model import FittedModel
from cerp.runs.folder import RunFolder
from cerp.runs.products import Judged

POPULARITY = "popularity"
RECENT_POPULARITY = "recent popularity"

Floor = dict[str, dict[str, Any]]
"""Part -> figures, where those of the models are: ``["test"]["ndcg@10"]``."""


def popularity_floors(
    models: Sequence[FittedModel], folder: RunFolder | None = None
) -> dict[str, Floor]:
    """The figures of popularity, and where the future is judged of popularity of late.

    They are kept in the folder of the run, as those of its models. Times are not kept with a
    split: where it was read from its folder, only what was judged before is told.
    """
    train = models[0].splits.train
    makers: dict[str, Callable[[], Scorer]] = {POPULARITY: lambda: Popularity(train)}
    if models[0].splits.protocol.get("name") == "time":
        makers[RECENT_POPULARITY] = lambda: RecentPopularity(train)
    floors: dict[str, Floor] = {}
    for name, make in makers.items():
        place = name.replace(" ", "-")  # where files of models have their budget
        judged = folder.judged(place) if folder else None
        if judged is None:
            if name == RECENT_POPULARITY and train.time is None:
                continue
            judged = _judged(make(), models)
            if folder:
                folder.write_judged(place, judged)
        floors[name] = judged.metrics
    return floors


def _judged(scorer: Scorer, models: Sequence[FittedModel]) -> Judged:
    started = time.monotonic()
    model = models[0]
    ks = cutoffs_with(model.config.selection_metric)
    parts: list[Part] = [part for part in PARTS if part in model.metrics]
    metrics: Floor = {
        part: evaluate(
            scorer,
            model.splits,
            on=part,
            ks=ks,
            users=users_to_judge(model.splits, part, model.config.judge_users),
        ).summary()
        for part in parts
    }
    return Judged(metrics, round(time.monotonic() - started, 2))


def below_floor(model: FittedModel, floor: Floor, name: str = POPULARITY) -> str | None:
    """What to say of a model that popularity beats on validation, which chooses, or on test."""
    metric = model.config.selection_metric
    for part in ("valid", "test"):
        if part not in model.metrics or part not in floor:
            continue
        own, least = model.metrics[part][metric], floor[part][metric]
        if own < least:
            return (
                f"{model.config.method} at {model.budget} has {metric} {own:.4f} on {part}, below "
                f"{name} with {least:.4f}: {INSTEAD[name]}, or train longer, or with more data"
            )
    return None


INSTEAD = {
    POPULARITY: "recommend the most popular items instead",
    RECENT_POPULARITY: "recommend what is popular of late instead",
}
