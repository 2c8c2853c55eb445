"""A comparison from plan to results: what is missing is run, each job in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cerp.comparison.display import Display
from cerp.comparison.jobs import Job
from cerp.comparison.results import Results
from cerp.comparison.worker import DATA_FOLDER, JOB_FILE, LOG_FILE, RESULTS_FILE, JobFolder
from cerp.config import differences
from cerp.data.splits import Splits
from cerp.errors import ConfigError, TrainingError
from cerp.files import ABANDONED_SECONDS, errors_named, make_folder, sweep, write_json
from cerp.locks import claimed

LOOK_EVERY_SECONDS = 0.2
WORKER = [sys.executable, "-m", "cerp.comparison.worker"]
"""The command that does the job of a folder."""


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold the folder of a comparison, from reading its results to writing its tables.

    An error of its disk is named, wherever it comes from.
    """
    with errors_named(folder), claimed(folder, (RESULTS_FILE, DATA_FOLDER, "table.*")):
        for inside in (folder / "users", *(folder / "jobs").glob("*")):
            # A worker may outlive the process that held the folder by a checkpoint.
            sweep(inside, ("*",), ABANDONED_SECONDS)
        yield


def missing(jobs: list[Job], results: Results) -> list[Job]:
    """The jobs without the cells that have a result."""
    left = [
        replace(job, budgets=tuple(cell.budget for cell in job.cells if cell not in results))
        for job in jobs
    ]
    return [job for job in left if job.budgets]


def run(
    jobs: list[Job],
    splits: Splits,
    results: Results,
    display: Display,
    *,
    device: str = "cpu",
    processes: int = 1,
    time_limit: float | None = None,
) -> dict[str, str]:
    """Run what is missing, so many jobs at a time; what failed, and why, by job.

    A job that fails leaves the others alone and is tried again by the next call.
    Interrupting it stops all jobs, and the next call goes on where they were.
    After ``time_limit`` seconds no job is started any more; those that run are finished.
    """
    if processes < 1:
        raise ConfigError(f"a comparison needs at least 1 process, got {processes}")
    results.check(jobs, splits.learning_fingerprint)
    _keep_data(splits, results.folder)
    waiting = missing(jobs, results)
    threads = results.threads or _threads(processes)
    folders = {job.name: _described(job, results.folder, device, threads) for job in waiting}
    failed: dict[str, str] = {}
    started = time.monotonic()
    with _Processes(processes, threads) as running:
        while waiting or running.jobs:
            if time_limit is not None and time.monotonic() - started >= time_limit:
                waiting.clear()
            while waiting and running.have_room:
                job = waiting.pop(0)
                running.start(job.name, folders[job.name])
                display.started(job)
            ended = running.ended()
            for name in [*running.jobs, *ended]:
                results.add(folders[name].results())
            for name, code in ended.items():
                if code != 0:
                    failed[name] = _reason(code, folders[name])
                display.ended(name, failed.get(name))
            display.show(results, {name: folders[name].last_log_line() for name in running.jobs})
            if not ended:
                time.sleep(LOOK_EVERY_SECONDS)
    return failed


def _keep_data(splits: Splits, folder: Path) -> None:
    """Save the splits, unless they are there."""
    path = folder / DATA_FOLDER
    if not path.exists():
        splits.save(path)
    elif Splits.load(path).learning_fingerprint != splits.learning_fingerprint:
        raise ConfigError(f"{folder} holds a comparison on other data; choose another folder")


def _described(job: Job, comparison: Path, device: str, threads: int) -> JobFolder:
    """The folder of a job, with what is asked of it; refused where other settings are at work."""
    folder = JobFolder.of(comparison, job)
    path = folder.path / JOB_FILE
    config = json.loads(json.dumps(job.config and job.config.to_dict()))
    if path.exists():
        there = json.loads(path.read_text("utf-8"))["config"]
        if found := differences(config or {}, there or {}):
            raise ConfigError(
                f"{folder.path} holds a job with other settings; they differ in "
                f"{'; '.join(found)} (asked for against there). Choose another folder, or remove it"
            )
    make_folder(folder.path)
    described = {"job": job.to_dict(), "config": config, "device": device, "threads": threads}
    write_json(path, described)
    return folder


def _threads(processes: int) -> int:
    """Of each process, in a comparison that begins: as told, else its share of the cores."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    return (
        int(told) if told.isdecimal() and int(told) else max(1, (os.cpu_count() or 1) // processes)
    )


def _reason(code: int, folder: JobFolder) -> str:
    if code < 0:
        return f"killed by signal {-code} (9 is often too little memory)"
    return folder.last_log_line().removeprefix("error: ")


class _Processes:
    """Worker processes, so many at a time."""

    def __init__(self, most: int, threads: int) -> None:
        self.most = most
        self.jobs: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}

    @property
    def have_room(self) -> bool:
        return len(self.jobs) < self.most

    def start(self, name: str, folder: JobFolder) -> None:
        with (folder.path / LOG_FILE).open("wb") as log:
            self.jobs[name] = subprocess.Popen(
                [*WORKER, str(folder.path)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self.environment,
                # Ctrl-C is ours to handle: it reaches a worker once, by the end of its input.
                start_new_session=True,
            )

    def ended(self) -> dict[str, int]:
        """The exit codes of jobs that have ended since the last call."""
        codes = {name: process.poll() for name, process in self.jobs.items()}
        found = {name: code for name, code in codes.items() if code is not None}
        for name in found:
            _close(self.jobs.pop(name))
        return found

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *_: object) -> None:
        """Let what is still running save itself and end."""
        for process in self.jobs.values():
            _close(process)
        for process in self.jobs.values():
            process.wait()


def _close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def training_error(failed: dict[str, str], num_jobs: int, folder: Path) -> TrainingError:
    """An error that names the jobs that failed; ``folder`` is that of the comparison."""
    reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
    return TrainingError(
        f"{len(failed)} of {num_jobs} jobs failed ({reasons}); the logs are in "
        f"{folder / 'jobs'}, and the same command tries them again"
    )
