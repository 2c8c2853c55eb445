"""One job of a comparison in a process of its own: `python -m cerp.comparison.worker FOLDER`.

The folder holds the job, and then its runs and results. The process ends itself,
saving what it has, when its standard input is closed: by a parent that wants
it to stop, or by the death of the parent, however that came.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from cerp._version import __version__
from cerp.comparison.jobs import Cell, Job
from cerp.comparison.results import (
    Result,
    figures_of,
    read_lines,
    scores_of,
    write_lines,
    write_user_values,
)
from cerp.config import Config, RunOptions
from cerp.data.splits import Part, Splits
from cerp.errors import BudgetError, CerpError
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.evaluate import evaluate, users_to_judge
from cerp.evaluation.metrics import JUDGING, Metrics
from cerp.files import errors_named
from cerp.runs.fit import fit_all
from cerp.runs.fitted_model import FittedModel
from cerp.runs.sealed import read_json
from cerp.sizing.precision_plan import NONE
from cerp.training.malloc import freed_memory_kept
from cerp.training.stages import score_memory

DATA_FOLDER = "data"
"""The splits, in the comparison's folder: every job reads the same."""
JOB_FILE, RESULTS_FILE, LOG_FILE = "job.json", "results.jsonl", "log.txt"
LOG_TAIL_BYTES = 4096
"""As much of a log is read to find its last line."""
JUDGED: tuple[Part, ...] = ("valid", "test")


class JobFolder:
    """Where a job is described, run and answered: ``COMPARISON/jobs/<job>/``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.comparison = path.parents[1]
        self._results, self._log = _Watched(path / RESULTS_FILE), _Watched(path / LOG_FILE)
        self._found: list[Result] = []
        self._last_line = ""

    @classmethod
    def of(cls, comparison: Path, job: Job) -> JobFolder:
        """The folder of a job."""
        return cls(comparison / "jobs" / job.name)

    def results(self) -> list[Result]:
        """What the job has found so far; read again only after its file has changed."""
        if self._results.has_changed():
            self._found = read_lines(self._results.path)
        return self._found

    def run(self, budget: str) -> Path:
        """The run folder of a budget."""
        return self.path / budget

    def last_log_line(self) -> str:
        """The last line of the job's log that says something."""
        if self._log.has_changed():
            self._last_line = _last_line(self._log.path)
        return self._last_line


class _Watched:
    """A file that another process writes, and whether it has since it was last asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: tuple[int, int] | None = None

    def has_changed(self) -> bool:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        state = found.st_mtime_ns, found.st_size
        if state == self._state:
            return False
        self._state = state
        return True


def _last_line(path: Path) -> str:
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
        lines = log.read().decode("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def work(job: Job, splits: Splits, folder: JobFolder, device: str) -> Iterator[Result]:
    """Train and judge the cells of a job, which goes on where it was."""
    if job.config is None:
        yield _popularity(job, splits, folder)
        return
    for budget in job.budgets:
        yield _run(job, job.config, budget, splits, folder, device)


def _popularity(job: Job, splits: Splits, folder: JobFolder) -> Result:
    judged = {part: evaluate(Popularity(splits.train), splits, on=part) for part in JUDGED}
    write_user_values(folder.comparison, job.cells[0], judged["test"])
    return Result(
        job.method,
        job.backbone,
        None,
        job.seed,
        config=None,
        fingerprint=splits.learning_fingerprint,
        version=__version__,
        device="cpu",
        judging=JUDGING,
        **scores_of({part: judged[part].summary() for part in JUDGED}),
    )


def _run(
    job: Job, config: Config, budget: str | None, splits: Splits, folder: JobFolder, device: str
) -> Result:
    """Train and judge one cell; that the budget cannot be met is a result, no other error is."""
    if budget is not None:
        config = replace(config, budgets=(budget,))
    place = folder.run(budget or NONE)
    try:
        [model] = fit_all(splits, config, RunOptions(device=device, folder=place, resume=True))
    except BudgetError as error:
        return _trained(job, budget, config, splits, device, error=str(error))
    cell = Cell(job.method, job.backbone, budget, job.seed)
    write_user_values(folder.comparison, cell, _judged(model))
    noted = read_json(place / "metrics.json")
    figures = figures_of(model.facts, model.splits.num_entities * config.dim)
    figures["threads"] = noted.get("threads")
    return _trained(job, budget, config, splits, noted.get("device", device), **figures)


def _judged(model: FittedModel) -> Metrics:
    """Per-user values on test; a model that was read from a finished run is judged again."""
    if (judged := model.judged.get("test")) is not None:
        return judged
    memory = score_memory(model.device)
    users = users_to_judge(model.splits, "test", model.config.judge_users)
    return evaluate(model.scorer(), model.splits, users=users, memory=memory)


def _trained(
    job: Job, budget: str | None, config: Config, splits: Splits, device: str, **figures: Any
) -> Result:
    return Result(
        job.method,
        job.backbone,
        budget,
        job.seed,
        config=config.to_dict(),
        fingerprint=splits.learning_fingerprint,
        version=__version__,
        device=device,
        is_tuned=job.is_tuned,
        judging=JUDGING,
        **figures,
    )


def main(path: Path) -> None:
    """Do the job of a folder until it is done, or nobody waits for it any more."""
    threading.Thread(target=_interrupt_when_input_ends, daemon=True).start()
    do_job(path)


def do_job(path: Path) -> None:
    """Do the job of a folder, and leave each result there as soon as it is known."""
    folder = JobFolder(path)
    with errors_named(path):
        described = json.loads((path / JOB_FILE).read_text("utf-8"))
        job, device = Job.from_dict(described["job"]), described["device"]
        if described["threads"]:
            torch.set_num_threads(described["threads"])
        found: list[Result] = []
        with freed_memory_kept(device):
            for result in work(job, Splits.load(folder.comparison / DATA_FOLDER), folder, device):
                found.append(result)
                write_lines(path / RESULTS_FILE, found)


def _interrupt_when_input_ends() -> None:
    os.read(sys.stdin.fileno(), 1)
    _thread.interrupt_main()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except CerpError as problem:
        sys.exit(f"error: {problem}")
