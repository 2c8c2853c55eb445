"""What every campaign shares: a seed, an end, a count of cases, and the failures."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_SHOWN = 20
"""Failures that are written down; all are counted."""
FOLDERS = re.compile(r"(?<![\w.])(/[\w.@+-]+)+/")
"""Of paths from the root."""


@dataclass
class Campaign:
    """One campaign while it runs: ends with its cases or its time, whichever comes first."""

    name: str
    seed: int
    seconds: float
    most_cases: int
    cases: int = 0
    failures: list[str] = field(default_factory=list)
    num_failures: int = 0
    figures: dict[str, Any] = field(default_factory=dict)
    """What was measured beside, such as the slowest case."""
    started: float = field(default_factory=time.monotonic)

    @property
    def rng(self) -> random.Random:
        """Randomness of its own: the same in every run with the same seed."""
        return random.Random(f"{self.name} {self.seed}")

    @property
    def seconds_left(self) -> float:
        """Until it has to end."""
        return self.started + self.seconds - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether all is tried, or the time is up."""
        return self.cases >= self.most_cases or self.seconds_left <= 0

    def rounds(self) -> Iterator[int]:
        """0, 1, 2, ... until it is over."""
        number = 0
        while not self.is_over:
            yield number
            number += 1

    def check(self, holds: bool, failure: str) -> None:
        """Count a case, and a failure where something does not hold."""
        self.cases += 1
        if not holds:
            self.fail(failure)

    def fail(self, failure: str) -> None:
        """Count a failure."""
        self.num_failures += 1
        if len(self.failures) < MOST_SHOWN:
            # Where things are on this machine is nobody else's concern.
            self.failures.append(FOLDERS.sub("", failure))
            print(f"  {self.name}: {failure}", flush=True)

    def largest(self, name: str, value: float) -> None:
        """Keep the largest of a figure."""
        self.figures[name] = max(round(value, 3), self.figures.get(name, 0))

    def result(self) -> dict[str, Any]:
        """For results/campaigns.json."""
        return {
            "seed": self.seed,
            "cases": self.cases,
            "failures": self.num_failures,
            "seconds": round(time.monotonic() - self.started, 1),
            "figures": self.figures,
            "first_failures": self.failures,
        }


Attack = Callable[[Campaign], None]
"""A campaign's work: tries cases until `Campaign.is_over`."""
