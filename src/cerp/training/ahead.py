"""Batches drawn one step ahead, on a stream of their own, so that a GPU does not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cerp.models.batch import Batch


class Ahead:
    """``draw(epoch, step)`` of the next place while the batch before is trained on.

    Drawing is a few small kernels, some thirty without Triton: beside those of a step they cost
    next to nothing, and before it a tenth of the step. Draws must depend on their place alone.
    """

    def __init__(self, draw: Callable[[int, int], Batch], device: torch.device) -> None:
        self._draw = draw
        self._stream: Any = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            # What is drawn from was made on the usual stream.
            self._stream.wait_stream(torch.cuda.current_stream(device))
            self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._drawn: tuple[tuple[int, int], Batch] | None = None

    def prepare(self, epoch: int, step: int) -> None:
        """Draw what will be taken next."""
        if self._stream is None:
            self._drawn = ((epoch, step), self._draw(epoch, step))
            return
        outside = self._current_stream()
        torch.cuda.set_stream(self._stream)  # half of the time of torch's context manager
        try:
            self._drawn = ((epoch, step), self._draw(epoch, step))
            self._done.record(self._stream)
        finally:
            torch.cuda.set_stream(outside)

    def _current_stream(self) -> Any:
        # By its number: torch takes several microseconds to learn that of a device.
        return torch.cuda.current_stream(self._stream.device_index)

    def take(self, epoch: int, step: int) -> Batch:
        """The batch of a place, drawn now where it is not the one that was prepared."""
        if self._drawn is None or self._drawn[0] != (epoch, step):
            self.prepare(epoch, step)
        assert self._drawn is not None
        (_, batch), self._drawn = self._drawn, None
        if self._stream is not None:
            current = self._current_stream()
            current.wait_event(self._done)
            for part in batch:
                part.record_stream(current)  # its memory is not given away before it is read
        return batch
