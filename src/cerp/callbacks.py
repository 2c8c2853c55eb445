"""Callbacks: what looks on while a run trains, such as a tracker of experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Callback:
    """Told of every stage, every epoch and the end; this one does nothing.

    Make a subclass with the methods that are wanted, and give it to ``cerp.fit(callbacks=[...])``.
    Of several processes only the first one tells. What a callback raises ends the run, which can
    be resumed.
    """

    def on_stage(self, stage: str) -> None:
        """A stretch of training begins, or goes on after an interruption: ``"prune"`` and so on."""

    def on_epoch(self, stage: str, epoch: float, figures: Mapping[str, float]) -> None:
        """An epoch of a stage is over; 1 is the first.

        ``figures`` are those of ``curves.jsonl``: loss, values left, the metric on validation. An
        epoch that the stage did not need to the end is a fraction.
        """

    def on_end(self, result: Mapping[str, Any]) -> None:
        """All is done; ``result`` is what ``metrics.json`` holds."""
