"""How a comparison goes: a live table on a terminal, plain lines elsewhere, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from cerp.comparison.jobs import Cell, Job
from cerp.comparison.metrics import MAIN_METRIC, METRICS
from cerp.comparison.results import Result, Results
from cerp.comparison.statistics import spread
from cerp.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


class Display(Protocol):
    """What a running comparison talks to."""

    def started(self, job: Job) -> None:
        """A job has started."""

    def ended(self, name: str, failure: str | None) -> None:
        """A job has ended, and failed if there is a reason."""

    def show(self, results: Results, running: Mapping[str, str]) -> None:
        """What has been found so far, and what each running job said last."""


@contextmanager
def display(jobs: list[Job], results: Results, *, verbose: bool = True) -> Iterator[Display]:
    """For the jobs of a comparison, some of which may have results already."""
    if not verbose:
        yield Silence()
        return
    if not sys.stderr.isatty():
        yield Lines(results)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), transient=True) as live:

        class Terminal:
            def started(self, job: Job) -> None:
                pass

            def ended(self, name: str, failure: str | None) -> None:
                if failure:
                    live.console.print(printable(f"{name}: failed: {failure}"), markup=False)

            def show(self, results: Results, running: Mapping[str, str]) -> None:
                live.update(live_table(jobs, results, running))

        yield Terminal()


class Silence:
    """Nothing is shown."""

    def started(self, job: Job) -> None:
        """Said by nobody."""

    def ended(self, name: str, failure: str | None) -> None:
        """Said by nobody: failures are in what the comparison gives back."""

    def show(self, results: Results, running: Mapping[str, str]) -> None:
        """Said by nobody."""


class Lines:
    """A line for every start, result and failure."""

    def __init__(self, results: Results) -> None:
        self._told: set[Cell] = {result.cell for result in results.all}

    def started(self, job: Job) -> None:
        """The job's name."""
        self._print(f"{job.name}: started")

    def ended(self, name: str, failure: str | None) -> None:
        """A failure and its reason; what went well is told by its results."""
        if failure:
            self._print(f"{name}: failed: {failure}")

    def show(self, results: Results, running: Mapping[str, str]) -> None:
        """Results that were not told before."""
        for result in results.all:
            if result.cell not in self._told:
                self._told.add(result.cell)
                self._print(f"{result.cell.name}: {_outcome(result)}")

    def _print(self, line: str) -> None:
        print(printable(line), file=sys.stderr, flush=True)  # noqa: T201


def live_table(jobs: list[Job], results: Results, running: Mapping[str, str]) -> RenderableType:
    """Mean `MAIN_METRIC` of methods (down) at budgets (across), and what runs at the moment."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    budgets = list(dict.fromkeys(cell.budget or "-" for job in jobs for cell in job.cells))
    found: dict[tuple[str, str | None, str], list[Result]] = {}
    for result in results.all:
        key = result.method, result.backbone, result.budget or "-"
        found.setdefault(key, []).append(result)
    done = sum(cell in results for job in jobs for cell in job.cells)
    table = Table(title=f"{done} of {sum(len(job.cells) for job in jobs)} cells")
    for name in ("method", "backbone", *budgets):
        table.add_column(name, justify="left" if name in ("method", "backbone") else "right")
    for method, backbone in dict.fromkeys((job.method, job.backbone) for job in jobs):
        cells = (found.get((method, backbone, budget), []) for budget in budgets)
        table.add_row(method, backbone or "-", *map(_summary, cells))
    return Group(table, *(Text(f"{name}  {said}") for name, said in running.items()))


def _summary(found: list[Result]) -> str:
    scores = [score for result in found if (score := result.score(MAIN_METRIC)) is not None]
    if scores:
        return spread(scores)
    return "refused" if found else ""


def _outcome(result: Result) -> str:
    if result.error is not None:
        return f"refused: {result.error}"
    return ", ".join(f"{metric} {result.score(metric):.4f}" for metric in METRICS)
