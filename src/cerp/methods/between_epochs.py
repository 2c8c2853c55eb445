"""What a method does between two epochs of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from cerp.training.loop import StageHooks


class BetweenEpochs(StageHooks):
    """Calls ``act`` after some epochs: after their judgement, before the next one's first step."""

    def __init__(
        self, act: Callable[[int], None], is_due: Callable[[int], bool], *, forgets: bool
    ) -> None:
        self._act, self._is_due, self._forgets = act, is_due, forgets
        self._waiting: int | None = None

    def replaced_weights(self, step: int) -> bool:
        """Act, where an epoch has just ended that asks for it."""
        if self._waiting is None:
            return False
        self._act(self._waiting)
        self._waiting = None
        return self._forgets

    def after_epoch(self, epoch: int) -> dict[str, float]:
        """Note that something is to be done; the first epoch is 1."""
        self._waiting = epoch + 1 if self._is_due(epoch + 1) else None
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Whether something is due."""
        return {}, {"waiting": self._waiting}

    def load_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self._waiting = facts["waiting"]
