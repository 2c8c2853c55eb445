from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from cerp.models.batch import Batch
from cerp.training.losses import bpr
from cerp.training.objective import Objective
from cerp.training.recorded_steps import RecordedSteps

BATCH = Batch(torch.tensor([0]), torch.tensor([0]), torch.tensor([[1]]))


def another_loss(scores: torch.Tensor) -> torch.Tensor:
    return bpr(2 * scores)


class Recorder:
    """Notes what is recorded, and runs it as it is."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, step: Callable[[Batch], torch.Tensor], _: torch.device):
        self.count += 1
        return step


def steps() -> tuple[RecordedSteps, Recorder]:
    recorder = Recorder()

    def update(objective: Objective, _: Batch) -> torch.Tensor:
        return torch.as_tensor(objective.gamma) * 1

    return RecordedSteps(update, torch.device("cpu"), recorder), recorder


def test_another_gamma_needs_no_other_recording():
    recorded, recorder = steps()
    gammas = [1.0, 0.5, 0.25]
    assert [float(recorded.of(Objective(gamma=gamma))(BATCH)) for gamma in gammas] == gammas
    assert recorder.count == 1


def test_another_loss_or_none_of_the_penalty_is_another_recording():
    recorded, recorder = steps()
    objective = Objective(gamma=1.0)
    for one in (objective, replace(objective, gamma=0.0), replace(objective, loss=another_loss)):
        assert float(recorded.of(one)(BATCH)) == one.gamma
    assert recorder.count == 3


def test_a_penalty_whose_weight_is_a_tensor_is_asked_for():
    assert Objective(gamma=torch.zeros(())).has_penalty
    assert not Objective(gamma=0.0).has_penalty
