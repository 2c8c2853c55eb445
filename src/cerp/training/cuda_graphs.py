"""Training steps as CUDA graphs: recorded once, then replayed without Python in between.

A LightGCN step is some hundred small kernels, and launching them one by one
takes twice as long as running them. A recorded step is launched as a whole.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from cerp.models.batch import Batch

PLAIN_CALLS = 3
"""Calls before the recording: libraries load their kernels, and optimizers make their state."""


class CapturedStep:
    """``step(batch)``, replayed for all batches of the first one's shape; others run plainly.

    The step must be free of what a recording cannot hold: waiting for the
    device, or shapes that depend on values.
    """

    def __init__(self, step: Callable[[Batch], Tensor], device: torch.device) -> None:
        self._step = step
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: Batch | None = None
        self._loss: Tensor | None = None
        self._plain_calls = 0

    def __call__(self, batch: Batch) -> Tensor:
        """The loss of the batch, once the step is done."""
        if self._graph is not None and self._fits(batch):
            return self._replayed(batch)
        # Always the same stream: gradients are accumulated on the one they were first made on.
        outside = torch.cuda.current_stream()
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            loss = self._recorded(batch) if self._is_ready(batch) else self._step(batch)
        outside.wait_stream(self._stream)
        return loss

    def _is_ready(self, batch: Batch) -> bool:
        if self._inputs is None:
            self._inputs = Batch(*(torch.empty_like(tensor) for tensor in batch))
        if not self._fits(batch):
            return False
        self._plain_calls += 1
        return self._plain_calls > PLAIN_CALLS

    def _fits(self, batch: Batch) -> bool:
        return self._inputs is not None and batch.users.shape == self._inputs.users.shape

    def _recorded(self, batch: Batch) -> Tensor:
        assert self._inputs is not None
        self._graph = torch.cuda.CUDAGraph()
        with _no_garbage_collection(), torch.cuda.graph(self._graph, stream=self._stream):
            self._loss = self._step(self._inputs)
        return self._replayed(batch)

    def _replayed(self, batch: Batch) -> Tensor:
        """On whatever stream: what was recorded is one piece of work.

        Streams are not switched for it, which would take longer than a small step.
        """
        assert self._inputs is not None
        assert self._graph is not None
        assert self._loss is not None
        torch._foreach_copy_(list(self._inputs), list(batch))
        self._graph.replay()
        return self._loss


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Memory or graphs of earlier steps, freed in the middle of a recording, would break it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
