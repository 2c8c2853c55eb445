"""Adam, as every stage uses it, for weights and for thresholds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from cerp.config import PruneConfig, TrainConfig
from cerp.pruning.clocks import FreeClock


def adam(
    parameters: Sequence[nn.Parameter],
    *,
    learning_rate: float,
    weight_decay: float = 0.0,
    decoupled: bool = False,
    betas: tuple[float, float] = (0.9, 0.999),
) -> torch.optim.Adam | torch.optim.AdamW:
    """Adam with coupled (L2) weight decay, or AdamW where decay is ``decoupled``.

    One kernel for all parameters; on GPUs the learning rate and the step count
    lie on the device, so that a step can be recorded (see `cerp.training.cuda_graphs`).
    """
    device = parameters[0].device
    return (torch.optim.AdamW if decoupled else torch.optim.Adam)(
        parameters,
        lr=torch.tensor(learning_rate, device=device),
        betas=betas,
        weight_decay=weight_decay,
        fused=True,
        capturable=device.type == "cuda",
    )


def weight_optimizer(
    config: TrainConfig | PruneConfig, parameters: Sequence[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimizer that a stretch of training is configured to have."""
    return adam(
        parameters,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        decoupled=config.optimizer == "adamw",
    )


def threshold_adam(clock: FreeClock, threshold: nn.Parameter) -> torch.optim.Optimizer:
    """The thresholds' own optimizer, whose decay lifts them as the clock says."""
    return adam(
        [threshold],
        learning_rate=clock.learning_rate,
        betas=clock.betas,
        weight_decay=clock.weight_decay,
    )
