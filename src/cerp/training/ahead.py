"""Batches drawn ahead, on a stream of their own, so that a GPU does not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cerp.models.batch import Batch


class Ahead:
    """``draw(epoch, block)`` of the next block of batches while the one before is trained on.

    Drawing is a few small kernels, some thirty without Triton: beside those of a step they cost
    next to nothing, and before it a tenth of the step. Draws must depend on their place alone.
    """

    def __init__(self, draw: Callable[[int, int], list[Batch]], device: torch.device | str) -> None:
        self._draw = draw
        self._stream: Any = None
        if (device := torch.device(device)).type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            # What is drawn from was made on the usual stream.
            self._stream.wait_stream(torch.cuda.current_stream(device))
            self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._drawn: tuple[tuple[int, int], list[Batch]] | None = None

    def prepare(self, epoch: int, block: int) -> None:
        """Draw what will be taken next."""
        if self._stream is None:
            self._drawn = ((epoch, block), self._draw(epoch, block))
            return
        outside = self._current_stream()
        torch.cuda.set_stream(self._stream)  # half of the time of torch's context manager
        try:
            self._drawn = ((epoch, block), self._draw(epoch, block))
            self._done.record(self._stream)
        finally:
            torch.cuda.set_stream(outside)

    def _current_stream(self) -> Any:
        # By its number: torch takes several microseconds to learn that of a device.
        return torch.cuda.current_stream(self._stream.device_index)

    def take(self, epoch: int, block: int) -> list[Batch]:
        """The batches of a place, drawn now where they are not those that were prepared."""
        if self._drawn is None or self._drawn[0] != (epoch, block):
            self.prepare(epoch, block)
        assert self._drawn is not None
        (_, batches), self._drawn = self._drawn, None
        if self._stream is not None:
            current = self._current_stream()
            current.wait_event(self._done)
            for part in batches[0]:  # whose memory all batches of the block share
                part.record_stream(current)  # it is not given away before it is read
        return batches
