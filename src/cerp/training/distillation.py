"""Distillation: a student learns the preferences of a teacher beside what users took."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor

from cerp.data.ids import Float32Array
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender
from cerp.training.objective import Objective

TEACHER_WEIGHT = 10.0
"""λ of the teacher's preferences beside the loss."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TaughtObjective(Objective):
    """``L = (loss + γ·penalty + λ·CE) / B`` with the teacher's preferences of pairs.

    ``CE = −Σ_b Σ_j [p log σ(Δy) + (1 − p) log σ(−Δy)]``, where Δy = y_b0 − y_bj is the
    student's difference of the positive and a negative, and ``p = σ(Δt)`` of the teacher's.
    """

    teacher: Tensor
    """(N, d): the teacher's final vectors, users first; their dot products are its scores."""
    num_users: int
    weight: float = TEACHER_WEIGHT

    def __call__(self, model: Recommender, batch: Batch, global_size: int) -> Tensor:
        """The share of this process in the loss."""
        output = model(batch)
        told = preference_loss(output.scores, self._teacher_scores(batch))
        return (self.of_output(output) + self.weight * told) / global_size

    @torch.no_grad()
    def _teacher_scores(self, batch: Batch) -> Tensor:
        items = torch.cat([batch.positives[:, None], batch.negatives], dim=1)
        vectors = F.embedding(items + self.num_users, self.teacher)
        return torch.einsum("bd,bmd->bm", F.embedding(batch.users, self.teacher), vectors)


def preference_loss(scores: Tensor, told: Tensor) -> Tensor:
    """``Σ_b Σ_j softplus(Δy) − σ(Δt)·Δy``: cross-entropy of pair preferences, summed."""
    own, theirs = scores[:, :1] - scores[:, 1:], told[:, :1] - told[:, 1:]
    return (F.softplus(own) - torch.sigmoid(theirs) * own).sum()


def taught(
    objective: Objective, teacher: Float32Array | None, num_users: int, device: torch.device
) -> Objective:
    """The objective with a teacher beside it; itself where there is none."""
    if teacher is None:
        return objective
    settings = {entry.name: getattr(objective, entry.name) for entry in fields(Objective)}
    vectors = torch.from_numpy(teacher).to(device)
    return TaughtObjective(**settings, teacher=vectors, num_users=num_users)
