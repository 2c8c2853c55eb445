"""Progress of long work: a bar on a terminal, plain lines elsewhere, always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

LINE_EVERY_SECONDS = 10.0


class Bar(Protocol):
    """What long work talks to."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Some more is done; the note (a loss, a file name) replaces the previous one."""


@contextmanager
def progress(label: str, total: float | None = None, *, quiet: bool = False) -> Iterator[Bar]:
    """A bar for ``total`` units of work (None: unknown), for the length of a with block."""
    if quiet:
        yield _Silent()
    elif sys.stderr.isatty():
        with _terminal_bar(label, total) as bar:
            yield bar
    else:
        yield _Lines(label, total)


class _Silent:
    def advance(self, amount: float = 1, note: str = "") -> None:
        pass


class _Lines:
    """One line at most every ten seconds, and one when the total is reached."""

    def __init__(self, label: str, total: float | None) -> None:
        self.label, self.total = label, total
        self.done = 0.0
        self.begun = self.last = time.monotonic()

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.done += amount
        now = time.monotonic()
        # Parts of a whole need not add up to it in floats.
        finished = self.total is not None and self.done >= self.total * (1 - 1e-9)
        if finished or now - self.last >= LINE_EVERY_SECONDS:
            self.last = now
            share = f"{self.done / self.total:4.0%}" if self.total else f"{self.done:,.0f}"
            left = "" if finished else self._left(now)
            print(f"{self.label}: {share}{left} {note}".rstrip(), file=sys.stderr, flush=True)  # noqa: T201

    def _left(self, now: float) -> str:
        """About how long it will take, if it goes on as it went."""
        if not self.total or not self.done:
            return ""
        seconds = (now - self.begun) * (self.total - self.done) / self.done
        return f", {timedelta(seconds=round(seconds))} left"


@contextmanager
def _terminal_bar(label: str, total: float | None) -> Iterator[Bar]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(label, total=total, note="")

        class Terminal:
            def advance(self, amount: float = 1, note: str = "") -> None:
                bars.update(task, advance=amount, note=note)

        yield Terminal()
