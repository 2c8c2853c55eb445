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
        self._all: Tensor
        self._loss: Tensor | None = None
        self._plain_calls = 0

    def __call__(self, batch: Batch) -> Tensor:
        """The loss of the batch, once the step is done."""
        is_ready = self._is_ready(batch)
        if is_ready and self._graph is not None:
            return self._replayed(batch)
        # Always the same stream: gradients are accumulated on the one they were first made on.
        outside = torch.cuda.current_stream()
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            loss = self._recorded() if is_ready else self._step(batch)
        outside.wait_stream(self._stream)
        return self._replayed(batch) if is_ready else loss

    def _is_ready(self, batch: Batch) -> bool:
        if self._inputs is None:
            self._all = batch.users.new_empty(sum(part.numel() for part in batch))
            parts = torch.split(self._all, [part.numel() for part in batch])
            self._inputs = Batch(*(part.view_as(of) for part, of in zip(parts, batch, strict=True)))
        if batch.users.shape != self._inputs.users.shape:
            return False
        self._plain_calls += 1
        return self._plain_calls > PLAIN_CALLS

    def _recorded(self) -> Tensor:
        """Of no batch yet: what is recorded is not done."""
        assert self._inputs is not None
        self._graph = torch.cuda.CUDAGraph()
        with _no_garbage_collection(), torch.cuda.graph(self._graph, stream=self._stream):
            self._loss = self._step(self._inputs)
        return self._loss

    def _replayed(self, batch: Batch) -> Tensor:
        """On whatever stream: what was recorded is one piece of work.

        Streams are not switched for it, which would take longer than a small step.
        """
        assert self._inputs is not None
        assert self._graph is not None
        assert self._loss is not None
        if (together := in_a_row(batch)) is not None:
            self._all.copy_(together)
        else:
            torch._foreach_copy_(list(self._inputs), list(batch))
        self._graph.replay()
        return self._loss


def in_a_row(batch: Batch) -> Tensor | None:
    """All numbers of a batch, where they lie behind each other in one piece of memory."""
    users, place = batch.users, batch.users.storage_offset()
    storage, end = users.untyped_storage().data_ptr(), place
    for part in batch:
        is_next = part.storage_offset() == end and part.is_contiguous()
        if not is_next or part.untyped_storage().data_ptr() != storage:
            return None
        end += part.numel()
    return users.as_strided((end - place,), (1,), place)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Memory or graphs of earlier steps, freed in the middle of a recording, would break it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
