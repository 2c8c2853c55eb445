"""What the figures of several runs say together, and what they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cerp.config import Config
from cerp.data.splits import Splits
from cerp.evaluation.metrics import Metrics, cutoff_of
from cerp.evaluation.significance import Difference, paired_bootstrap
from cerp.reports.finished_runs import FinishedRun, Model
from cerp.reports.judging import Judgements, judge_models

DRAWS = 2_000
"""Of the bootstrap: 95% bounds in four digits need no more."""
FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Counts:
    """Of the data, as far as it is known: a run folder alone does not say everything."""

    users: int | None = None
    items: int | None = None
    train: int | None = None
    valid: int | None = None
    test: int | None = None


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that the page shows is in the runs or in here."""

    runs: list[FinishedRun]
    counts: Counts
    best: Model | None
    """The compact model that is best on validation; None if all are full size."""
    full: Model | None
    """The full-size model to compare it with: of its backbone and dimension if there is one."""
    judgements: Judgements | None
    """None without the data."""
    differences: dict[str, Difference]
    """`metric` of the best minus that of every other, by label."""

    @property
    def metric(self) -> str:
        """What models are sorted and compared by: what selected them."""
        return _common_metric(self.runs)

    @property
    def metrics(self) -> tuple[str, str]:
        """What tables show: `metric`, and beside it recall, or NDCG beside recall."""
        name, _, cut = self.metric.partition("@")
        return self.metric, f"{'ndcg' if name == 'recall' else 'recall'}@{cut}"

    @property
    def ranked(self) -> list[Model]:
        """All models, the best on the test part first; those without test figures last."""

        def score(model: Model) -> float:
            return float("-inf") if model.test is None else float(model.test[self.metric])

        return sorted(self.models, key=score, reverse=True)

    @property
    def models(self) -> list[Model]:
        """Of all runs."""
        return [model for run in self.runs for model in run.models]

    @property
    def popularity(self) -> Metrics | None:
        """The floor, if there is data to compute it from."""
        return None if self.judgements is None else self.judgements.popularity

    def style(self, run: FinishedRun) -> int:
        """Number of a run's colour and marker; compact runs come first."""
        return sorted(self.runs, key=lambda one: one.is_full).index(run)

    def full_table_bytes(self, model: Model) -> int | None:
        """``4 N d``: a vector in 32-bit floats for every user and item."""
        if self.counts.users is None or self.counts.items is None:
            return None
        entities = self.counts.users + self.counts.items
        return FLOAT32_BYTES * entities * model.run.config.dim

    def share_of_full_table(self, model: Model) -> float | None:
        """Bytes of the embedding as stored, over those of the full table."""
        full = self.full_table_bytes(model) if model.facts.has_vectors else None
        size = model.facts.embedding_bytes
        return None if not full or size is None else size / full


def find(runs: list[FinishedRun], splits: Splits | None = None) -> Findings:
    """Compare runs; with the data, also per user and by popularity."""
    models = [model for run in runs for model in run.models if model.test is not None]
    compact = [model for model in models if not model.run.is_full]
    best = max(compact, key=lambda model: model.validation, default=None)
    metric = _common_metric(runs)
    judgements = None if splits is None else judge_models(runs, splits, k=cutoff_of(metric))
    return Findings(
        runs,
        _counts(runs, splits),
        best,
        _full_rival(best, [model for model in models if model.run.is_full]),
        judgements,
        _differences(best, judgements, metric),
    )


def _counts(runs: Sequence[FinishedRun], splits: Splits | None) -> Counts:
    if splits is not None:
        parts = (splits.train, splits.valid, splits.test)
        return Counts(splits.num_users, splits.num_items, *map(len, parts))
    for run in runs:
        for model in run.models:
            if model.file is not None:
                shipped = model.file.model
                users = None if shipped.is_item_only else len(shipped.users)
                return Counts(users, len(shipped.items))
    return Counts()


def _full_rival(best: Model | None, full: list[Model]) -> Model | None:
    """The full-size model most like the best compact one."""

    def alike(model: Model) -> tuple[bool, bool, float]:
        if best is None:
            return False, False, model.validation
        mine, other = best.run.config, model.run.config
        return mine.backbone == other.backbone, mine.dim == other.dim, model.validation

    return max(full, key=alike, default=None)


def _common_metric(runs: Sequence[FinishedRun]) -> str:
    """What selected the models of all runs; of runs that differ in it, the usual one."""
    found = {run.config.selection_metric for run in runs}
    return found.pop() if len(found) == 1 else Config.selection_metric


def _differences(
    best: Model | None, judgements: Judgements | None, metric: str
) -> dict[str, Difference]:
    if best is None or judgements is None or best not in judgements.models:
        return {}
    others = {
        model.label: judged for model, judged in judgements.models.items() if model is not best
    }
    others["popularity"] = judgements.popularity
    mine = judgements.models[best]
    return {
        label: paired_bootstrap(mine, judged, metric, samples=DRAWS)
        for label, judged in others.items()
    }
