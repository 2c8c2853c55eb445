"""Adam, as every stage uses it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


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
