"""Layers that draw from an explicit generator, and a normalisation that takes any batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn


def linear(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Linear:
    """``y = A x + c`` with Xavier-uniform A and c = 0."""
    # Without storage first: nn.Linear would draw weights from the global generator.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


class BatchNorm(nn.Module):
    """``y = (x − mean) / √(var + ε) · scale + offset``, column by column.

    As ``nn.BatchNorm1d``: the batch's mean and variance in training, their
    running averages in evaluation. But a batch of one row, or of none, is
    normalised by the averages (nn.BatchNorm1d refuses it, and the last batch of
    an epoch can have a single user), and while ``tracks`` is false the
    averages stay as they are.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, features: int, *, momentum: float = 0.1, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.epsilon, self.tracks = momentum, epsilon, True
        self.scale = nn.Parameter(torch.ones(features))
        self.offset = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, rows: Tensor) -> Tensor:
        """Normalised rows, (n, features)."""
        return F.batch_norm(
            rows,
            self.running_mean,
            self.running_var,
            self.scale,
            self.offset,
            training=self.training and len(rows) > 1,
            momentum=self.momentum if self.tracks else 0.0,
            eps=self.epsilon,
        )


def track_averages(module: nn.Module, *, tracks: bool) -> None:
    """Say of every `BatchNorm` inside whether training moves its running averages."""
    for part in module.modules():
        if isinstance(part, BatchNorm):
            part.tracks = tracks
