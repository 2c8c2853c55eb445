"""Pruning that stops before its target, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from cerp.choices import StallAction
from cerp.errors import ConfigError

_CONSEQUENCE: dict[StallAction, str] = {
    "project": "the remaining budgets are met by exact projection to the top entries",
    "stop": "the run stops, as it was told to (on_stall = stop)",
    "report": "pruning goes on to its last epoch, and what is then above its budget is projected "
    "and marked as not reached",
}


class PruningEpoch(NamedTuple):
    """How one epoch of pruning ended."""

    epoch: int
    nnz: int
    mean_threshold: float
    gamma: float


@dataclass(frozen=True)
class StallDetector:
    """Says so when nnz stays above its target and hardly falls for some epochs in a row."""

    target: int
    action: StallAction = "project"
    patience: int = 3
    """Epochs in a row with too small a fall."""
    smallest_fall: float = 0.01
    """The share of nnz that an epoch has to prune."""
    first_epoch: int = 0
    """Epochs before this one do not count: a `FreeClock` prunes nothing until the thresholds
    have come up to the weights."""

    def __post_init__(self) -> None:
        if self.action not in _CONSEQUENCE:
            raise ConfigError(
                f"there is no stall action {self.action!r}; choose one of {', '.join(_CONSEQUENCE)}"
            )
        if self.patience < 1:
            raise ConfigError(f"a stall lasts at least 1 epoch, got a patience of {self.patience}")

    def message(self, history: Sequence[PruningEpoch]) -> str | None:
        """What stalled and what follows, or None while pruning moves on."""
        counted = [record for record in history if record.epoch >= self.first_epoch]
        recent = counted[-self.patience - 1 :]
        if len(recent) <= self.patience or recent[-1].nnz <= self.target:
            return None
        least = 1 - self.smallest_fall
        if any(now.nnz <= least * before.nnz for before, now in pairwise(recent)):
            return None
        flat = (
            f"fewer than {self.smallest_fall:.0%} went in each of the last {self.patience} epochs"
        )
        return f"pruning stalled {self._told(recent[-1], flat)}; {_CONSEQUENCE[self.action]}"

    def last_message(self, last: PruningEpoch) -> str:
        """What is said when there are no more epochs, and the target is not reached."""
        action = "project" if self.action == "report" else self.action
        return f"pruning ended {self._told(last, 'no epoch is left')}; {_CONSEQUENCE[action]}"

    def _told(self, last: PruningEpoch, why: str) -> str:
        return (
            f"at epoch {last.epoch}: {last.nnz:,} values are left, the target is "
            f"{self.target:,}, and {why} (mean threshold {last.mean_threshold:.2f}, "
            f"gamma {last.gamma:.2g})"
        )
