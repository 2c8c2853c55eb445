"""When to end the training of a member: at the limit of time, or clearly behind the best."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from cerp.config import Progress
from cerp.errors import ConfigError

BEHIND = 0.8
"""A training whose best figure, after a quarter of its steps, is below so much of the best
member's is given up. First figures are near the last ones, since rows are learned and pruned
before: on lastfm at 300 KB a quarter has 95% of the end with MF, and 99% with LightGCN."""
LOOK_AFTER = 0.25

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def parse_duration(text: str) -> float:
    """Seconds of ``'90s'``, ``'10m'`` or ``'2h'``."""
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not seconds > 0:
        raise ConfigError(f"time_limit {text!r} is no time; write one such as '90s', '10m' or '2h'")
    return seconds


@dataclass(frozen=True)
class Clock:
    """How much of the time is left."""

    limit: str | None
    """As the caller wrote it."""
    end: float | None

    @classmethod
    def started(cls, limit: str | None) -> Clock:
        """From now on."""
        return cls(limit, None if limit is None else time.monotonic() + parse_duration(limit))

    @property
    def is_over(self) -> bool:
        """Whether there is none left."""
        return self.end is not None and time.monotonic() >= self.end


@dataclass(frozen=True)
class Watch:
    """Asked after every step of a member's training whether to go on; answers why not."""

    clock: Clock
    best: float | None
    """The best figure on validation of the members before; None: this one is not compared."""

    def __call__(self, progress: Progress) -> str | None:
        """None: go on."""
        if self.clock.is_over:
            return f"stopped at the time limit of {self.clock.limit}"
        if self.best is None or progress.score is None or progress.share < LOOK_AFTER:
            return None
        if progress.score >= BEHIND * self.best:
            return None
        return (
            f"given up after {progress.share:.0%} of its training: {progress.score:.4f} is below "
            f"{BEHIND:.0%} of the best, {self.best:.4f}"
        )
