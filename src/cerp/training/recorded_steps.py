"""One recording of a training step for all objectives that differ in the penalty's weight alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from cerp.models.batch import Batch
from cerp.training.cuda_graphs import CapturedStep
from cerp.training.objective import Objective

Step = Callable[[Batch], Tensor]
Update = Callable[[Objective, Batch], Tensor]


class RecordedSteps:
    """Pruning halves γ after every epoch: a recorded step reads it from the device."""

    def __init__(
        self,
        update: Update,
        device: torch.device,
        record: Callable[[Step, torch.device], Step] = CapturedStep,
    ) -> None:
        self._update, self._device, self._record = update, device, record
        self._gamma = torch.zeros((), device=device)
        self._kind: Objective | None = None
        self._step: Step | None = None

    def of(self, objective: Objective) -> Step:
        """The step for an objective, which holds until the next one is asked for."""
        kind = replace(objective, gamma=float(objective.has_penalty))
        if self._step is None or self._kind != kind:
            read = replace(objective, gamma=self._gamma) if objective.has_penalty else objective
            self._kind = kind
            self._step = self._record(partial(self._update, read), self._device)
        self._gamma.fill_(objective.gamma)
        return self._step
