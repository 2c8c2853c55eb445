"""What a comparison has found: a line of JSON for each cell, and per-user values beside it.

    FOLDER/results.jsonl            one `Result` a line
    FOLDER/users/<cell>.npz         `METRICS` of every test user

One comparison at a time writes to a folder. Several folders, filled on several
machines, merge if they are of the same data and settings.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cerp.comparison.jobs import Cell, Job
from cerp.comparison.metrics import MAIN_METRIC, METRICS, field_of, figures_in
from cerp.comparison.statistics import Seeds
from cerp.config import Config, differences
from cerp.errors import ConfigError, DataError
from cerp.evaluation.metrics import JUDGING, Metrics
from cerp.files import make_folder, write_bytes, write_text
from cerp.runs.facts import ModelFacts


@dataclass(frozen=True)
class Result:
    """A cell and what came of it. A refused cell has an error and no figures."""

    method: str
    backbone: str | None
    budget: str | None
    seed: int
    config: dict[str, Any] | None
    fingerprint: str
    version: str
    device: str
    threads: int | None = None
    """That the process computed with, on which the last bits depend; None: not known, or none."""
    is_tuned: bool = False
    error: str | None = None
    limit: int | None = None
    """The values that the budget allows."""
    sparsity: float | None = None
    """``1 - nnz / (N·d)``."""
    nnz: int | None = None
    paper_count: int | None = None
    """Values as the paper counts them."""
    stored_count: int | None = None
    """Every stored learnable value."""
    assignment: str | None = None
    """How entities get rows of codebooks: ``hash`` or ``learned``; None in results that are older
    than the choice, and where there are no codebooks."""
    codebooks: int | None = None
    code_bytes: int | None = None
    """Of learned codes in the file."""
    values: str | None = None
    """How the file writes a value: fp32, fp16, int8 or int4."""
    embedding_bytes: int | None = None
    file_bytes: int | None = None
    why_no_file: str | None = None
    avg_dim: float | None = None
    overlap: float | None = None
    search: dict[str, Any] | None = None
    """What the method's search tells of itself, such as the epoch in which pruning was done."""
    best_epoch: int | None = None
    """That validation selected; None in results that are older than the entry."""
    ndcg10: float | None = None
    recall10: float | None = None
    ndcg20: float | None = None
    recall20: float | None = None
    tail_ndcg10: float | None = None
    """Where only truth among items that are not popular counts."""
    coverage10: float | None = None
    """Share of the items that are in anybody's list."""
    valid_ndcg10: float | None = None
    seconds: float | None = None
    judging: int | None = None
    """The number of the conventions that judged (`cerp.evaluation.metrics.JUDGING`); None: the
    first, before results said."""

    def score(self, metric: str) -> float | None:
        """One of `METRICS` on the test part; None for a refused cell."""
        value: float | None = getattr(self, field_of(metric))
        return value

    @property
    def cell(self) -> Cell:
        """Which entry of the grid it is."""
        return Cell(self.method, self.backbone, self.budget, self.seed)

    @property
    def ends_at_its_last_epoch(self) -> bool:
        """Whether validation still rose when training ended: longer might have been better."""
        epochs = (self.config or {}).get("train", {}).get("epochs")
        return self.is_random and bool(self.best_epoch) and self.best_epoch == epochs

    @property
    def is_older(self) -> bool:
        """Whether other conventions judged than those of today."""
        return self.judging != JUDGING

    @property
    def is_random(self) -> bool:
        """Whether a seed changes anything: not where nothing is trained, and so no backbone."""
        return self.backbone is not None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The configuration, apart from what tells the cells of a method and backbone apart."""
        return _settings(self.config)

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), allow_nan=False)


def main_scores(results: Sequence[Result]) -> Seeds:
    """`MAIN_METRIC` of all seeds of a method; one number, where no seed changes it."""
    scores = [score for one in results if (score := one.score(MAIN_METRIC)) is not None]
    return scores if results[0].is_random else scores[0]


def figures_of(facts: ModelFacts, full_count: int) -> dict[str, Any]:
    """The entries of a `Result` that are figures of a trained model.

    ``full_count`` is N·d, the number of values of the full table.
    """
    return {
        "sparsity": 1 - facts.nnz / full_count,
        **{name: getattr(facts, name) for name in _FROM_FACTS},
        **scores_of(facts.metrics),
    }


def scores_of(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The entries of a `Result` that say how good a model is."""
    # A refit has learned from the validation part, and is not judged on it.
    valid = metrics.get("valid", {}).get(MAIN_METRIC)
    return {**figures_in(metrics["test"]), f"valid_{field_of(MAIN_METRIC)}": valid}


_FROM_FACTS = tuple(
    {entry.name for entry in fields(Result)}
    & {entry.name for entry in fields(ModelFacts)} - {"budget"}
)
"""What a result takes over from a model as it is, under the same name."""


def read_lines(path: Path) -> list[Result]:
    """The results in a file of JSON lines; none where there is no file."""
    if not path.exists():
        return []
    try:
        return [Result(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path} holds something that is no result ({error}); was it written by another "
            "version of cerp? Remove it, and the same command finds the finished runs again"
        ) from None


def write_lines(path: Path, results: Iterable[Result]) -> None:
    """Write results, whole or not at all."""
    write_text(path, "".join(f"{result.to_line()}\n" for result in results))


class Results:
    """The results in a folder, the same settings in every cell of a method and backbone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "results.jsonl"
        self._by_cell: dict[Cell, Result] = {}
        for result in read_lines(self.path):
            self._check(result, self.path)
            self._by_cell[result.cell] = result

    @property
    def all(self) -> list[Result]:
        """In the order in which they came."""
        return list(self._by_cell.values())

    @property
    def threads(self) -> int | None:
        """That results on a CPU were trained with; None where there are none yet."""
        return next((one.threads for one in self.all if one.threads and one.device == "cpu"), None)

    def __contains__(self, cell: Cell) -> bool:
        return cell in self._by_cell

    def add(self, found: Iterable[Result], source: str | Path = "this comparison") -> None:
        """Keep results; cells that are there already stay as they are."""
        new = [result for result in found if result.cell not in self]
        for result in new:
            self._check(result, source)
            self._by_cell[result.cell] = result
        if new:
            make_folder(self.folder)
            write_lines(self.path, self._by_cell.values())

    def merge(self, other: Results) -> None:
        """Take over what another folder has and this one has not."""
        if not other.all:
            raise DataError(f"{other.folder} holds no results (no results.jsonl) to merge")
        for result in other.all:
            self._check(result, other.folder)
            if result.cell not in self and result.error is None:
                write_user_values(self.folder, result.cell, other.user_values(result.cell))
        self.add(other.all, other.folder)

    def check(self, jobs: Iterable[Job], fingerprint: str) -> None:
        """Refuse to go on with other data, or with other settings for what is there."""
        for known in self.all:
            self._refuse_other_data(known, fingerprint, "this data")
        for job in jobs:
            asked = _settings(None if job.config is None else job.config.to_dict())
            for known in self.all:
                if (known.method, known.backbone) == (job.method, job.backbone):
                    self._refuse_other_settings(known, asked, "what is asked for now")

    def has_user_values(self, cell: Cell) -> bool:
        """Whether per-user values are here, and not only on the machine that judged."""
        return _users_path(self.folder, cell).exists()

    def user_values(self, cell: Cell) -> Metrics:
        """`METRICS` of every test user."""
        path = _users_path(self.folder, cell)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                per_user = {name: arrays[name] for name in METRICS}
                return Metrics("test", arrays["users"], per_user, {}, {}, {})
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{path} cannot be read ({error}); remove the line of {cell.name} from "
                f"{self.path} and run the comparison again"
            ) from None

    def _check(self, result: Result, source: str | Path) -> None:
        if result.device == "cpu" and result.threads and self.threads not in (None, result.threads):
            raise ConfigError(
                f"{self.folder} holds results of {self.threads} threads, {source} those of "
                f"{result.threads}, and results depend on it; train those again with as many "
                "(the environment variable OMP_NUM_THREADS), or choose another folder"
            )
        for known in self.all:
            self._refuse_other_data(known, result.fingerprint, source)
            if (known.method, known.backbone) == (result.method, result.backbone):
                self._refuse_other_settings(known, result.settings, source)

    def _refuse_other_data(self, known: Result, fingerprint: str, source: str | Path) -> None:
        if known.fingerprint != fingerprint:
            raise ConfigError(
                f"{self.folder} holds results of other data: their fingerprint is "
                f"{known.fingerprint[:12]}, that of {source} {fingerprint[:12]}; "
                "choose another folder"
            )

    def _refuse_other_settings(
        self, known: Result, settings: dict[str, Any], source: str | Path
    ) -> None:
        if found := differences(settings, known.settings):
            raise ConfigError(
                f"{self.folder} holds {known.method} ({known.backbone}) with other settings than "
                f"{source}; they differ in {'; '.join(found)} (given against there). "
                "Choose another folder"
            )


def write_user_values(folder: Path, cell: Cell, metrics: Metrics) -> None:
    """Keep what a paired comparison needs of a cell."""
    path = _users_path(folder, cell)
    make_folder(path.parent)
    buffer = io.BytesIO()
    # mypy takes the names for np.savez's own option.
    arrays: dict[str, Any] = {name: metrics.per_user[name] for name in METRICS}
    np.savez_compressed(buffer, users=metrics.users, **arrays)
    write_bytes(path, buffer.getvalue())


def copy_user_values(cell: Cell, source: Path, target: Path) -> None:
    """From one folder to another, where the first has them."""
    path, copy = _users_path(source, cell), _users_path(target, cell)
    if path.exists():
        make_folder(copy.parent)
        write_bytes(copy, path.read_bytes())


def _users_path(folder: Path, cell: Cell) -> Path:
    return folder / "users" / f"{cell.name}.npz"


def _settings(config: dict[str, Any] | None) -> dict[str, Any]:
    # Built anew: a setting that is younger than the result has its default.
    plain = {} if config is None else Config.from_dict(config).to_dict()
    return {name: plain[name] for name in plain if name not in ("budgets", "seed")}
