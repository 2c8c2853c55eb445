"""What the folders of finished runs hold, read once and checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_type_hints

from cerp import artifact
from cerp.artifact import ShippedModel
from cerp.config import Config
from cerp.errors import ConfigError, DataError
from cerp.kinds import fits
from cerp.naming import model_file
from cerp.runs.facts import ModelFacts

Curve = list[dict[str, float]]
"""A row for every epoch of a stage."""

_OF_ORIGIN = ("fingerprint", "version", "device")
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError)
ANYWHERE = ("backbone", "dim")
WITHIN_A_METHOD = (
    "assignment",
    "codebooks",
    "ordering",
    "hashing",
    "buckets",
    "rewind",
    "value_precision",
    "refit",
    "mix",
    "seed",
)
"""Settings that tell runs apart: among all, and among those of one method."""


@dataclass(frozen=True)
class Origin:
    """Where the figures of a run come from."""

    fingerprint: str
    """Of the data."""
    version: str
    """Of cerp."""
    device: str
    id_leak: dict[str, dict[str, float]] | None
    """NDCG@10 by window and by numbering, where a run has used raw ids: what they give away."""


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model file and where its bytes are."""

    path: Path
    sections: dict[str, int]
    """They add up to the size of the file."""
    model: ShippedModel

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return sum(self.sections.values())


@dataclass(frozen=True, eq=False)
class Model:
    """One model of a run."""

    label: str
    run: FinishedRun
    facts: ModelFacts
    file: ModelFile | None
    """None where the method has no file, or the folder does not have it any more."""

    @property
    def test(self) -> dict[str, Any] | None:
        """Figures on the test part; None without one, or after a refit on everything."""
        return self.facts.metrics.get("test")

    @property
    def is_rising(self) -> bool:
        """Whether it was still improving on validation when training ended."""
        return self.facts.best_epoch == self.run.config.train.epochs

    @property
    def validation(self) -> float:
        """The selection metric on validation, which chooses among models: never that of test."""
        judged = self.facts.metrics.get("valid") or {}
        return float(judged.get(self.facts.selection_metric, self.facts.best_valid))


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """One run folder."""

    folder: Path
    label: str
    """Its method, and what tells it from the other runs of the report."""
    config: Config
    facts: tuple[ModelFacts, ...]
    """Of its models, in the order of their budgets."""
    origin: Origin
    curves: dict[str, Curve]
    """By stage; empty if the folder has none."""

    @property
    def is_full(self) -> bool:
        """Whether it is the uncompressed model that others are compared with."""
        return self.config.method == "full"

    @property
    def has_vectors(self) -> bool:
        """Whether its models have vectors, so that backbone and dimension say something."""
        return any(facts.has_vectors for facts in self.facts)

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """In the order of their budgets."""
        return tuple(
            Model(_model_label(self, facts), self, facts, _file(self.folder, facts))
            for facts in self.facts
        )

    @property
    def tightest(self) -> Model:
        """The model with the fewest values, as budgets count them."""
        return min(self.models, key=lambda model: model.facts.paper_count)


def read_runs(folders: Sequence[Path]) -> list[FinishedRun]:
    """Finished runs of the same data, labelled so that no two look alike."""
    if repeated := [folder for folder, times in Counter(folders).items() if times > 1]:
        raise DataError(f"{repeated[0]} is given more than once; name every run once")
    runs = [_read_run(folder) for folder in folders]
    first = runs[0]
    for run in runs[1:]:
        if run.origin.fingerprint != first.origin.fingerprint:
            raise DataError(
                f"{run.folder} and {first.folder} were trained on different data (fingerprints "
                f"{run.origin.fingerprint[:12]} and {first.origin.fingerprint[:12]}); "
                "their figures cannot be compared. Make a report for each"
            )
    return [replace(run, label=label) for run, label in zip(runs, _labels(runs), strict=True)]


def _read_run(folder: Path) -> FinishedRun:
    path = folder / "metrics.json"
    if not path.is_file():
        raise DataError(
            f"{folder} holds no finished run (no metrics.json); name the folder that training "
            "wrote, or train on with resume=True if it was interrupted"
        )
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        config = Config.from_dict(result["config"])
        facts = tuple(map(ModelFacts.from_json, result["models"]))
        fingerprint, version, device = (result[name] for name in _OF_ORIGIN)
        origin = Origin(fingerprint, version, device, _leak_scores(result.get("id_leak")))
        for name, kind in get_type_hints(Origin).items():
            if not fits(getattr(origin, name), kind):
                raise TypeError(f"{name} is {getattr(origin, name)!r}")
    except (*_UNREADABLE, ConfigError) as error:
        raise DataError(
            f"{path} is not what a run of this version writes ({type(error).__name__}: "
            f"{error}); train the run again"
        ) from None
    if not facts:
        raise DataError(f"{path} has no models; train the run again")
    curves = _read_curves(folder / "curves.jsonl")
    return FinishedRun(folder, config.method, config, facts, origin, curves)


def _leak_scores(told: dict[str, Any] | None) -> dict[str, dict[str, float]] | None:
    """Of all that `cerp.evaluation.id_leak` tells, the figures that the page shows."""
    if told is None:
        return None
    return {
        side: {order: told[side][order] for order in ("native", "shuffled")}
        for side in ("item_window", "user_window")
    }


def _read_curves(path: Path) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for line in lines:
            row = json.loads(line)
            numbers = {key: value for key, value in row.items() if _is_number(value)}
            curves.setdefault(row["stage"], []).append(numbers)
    except _UNREADABLE as error:
        raise DataError(
            f"{path} is not what a run writes ({error}); remove it to leave its curves out"
        ) from None
    return curves


def _is_number(value: object) -> bool:
    return fits(value, float)


def _file(folder: Path, facts: ModelFacts) -> ModelFile | None:
    """The file of a model, which must be the one that the run wrote."""
    path = model_file(folder, facts.budget)
    if facts.file_bytes is None or not path.exists():
        return None
    model = artifact.read(path)
    file = ModelFile(path, artifact.section_bytes(path.read_bytes()), model)
    if file.size != facts.file_bytes:
        raise DataError(
            f"{path} has {file.size:,} bytes and metrics.json says {facts.file_bytes:,}: it "
            "is not the file of this run. Put that back, or remove this one to do without"
        )
    return file


def _model_label(run: FinishedRun, facts: ModelFacts) -> str:
    """With its budget; what stores no values keeps every one."""
    is_limited = facts.has_vectors or facts.paper_count > 0
    return f"{run.label} {facts.budget}" if is_limited and not run.is_full else run.label


def _labels(runs: Sequence[FinishedRun]) -> list[str]:
    """Methods, with the settings and at last the folders that tell them apart."""
    labels = []
    for run in runs:
        same_method = [other for other in runs if other.config.method == run.config.method]
        alike = [other for other in runs if other.has_vectors]
        words = [_differing(run, alike, name) for name in ANYWHERE if run.has_vectors]
        words += [_differing(run, same_method, name) for name in WITHIN_A_METHOD]
        labels.append(" ".join([run.config.method, *filter(None, words)]))
    repeated = {label for label, times in Counter(labels).items() if times > 1}
    return [
        f"{label} ({run.folder})" if label in repeated else label
        for run, label in zip(runs, labels, strict=True)
    ]


def _differing(run: FinishedRun, others: Sequence[FinishedRun], name: str) -> str | None:
    """A setting in words, where not all have the same."""
    value = getattr(run.config, name)
    if value is None or all(getattr(other.config, name) == value for other in others):
        return None
    speaks_for_itself = isinstance(value, str) and name != "refit"
    return str(value) if speaks_for_itself else f"{name} {value}"
