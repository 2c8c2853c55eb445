"""Training losses by name, as sums over a batch: the objective divides by the batch's size.

A loss is a function of scores, (B, 1 + k) with the positives in column 0, and
one decorator here or an entry point in the group ``cerp.losses``. It must not
wait for the device, nor make shapes that depend on values: steps on a GPU are
recorded (see `cerp.training.cuda_graphs`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.kernels.triton_there import in_use
from cerp.registry import Registry

Loss = Callable[[Tensor], Tensor]

LOSSES: Registry[Loss] = Registry("loss", "cerp.losses")
"""What `Config.loss` can be."""


@LOSSES.register("bpr")
def bpr(scores: Tensor) -> Tensor:
    """``Σ_b Σ_j softplus(y_bj − y_b0)``: column 0 holds the positives, the others negatives.

    Bayesian personalised ranking, −log σ(y⁺ − y⁻), summed over the negatives.
    """
    if in_use(scores.device) and scores.dtype == torch.float32:
        found: Tensor = _KernelBpr.apply(scores)  # type: ignore[no-untyped-call]
        return found
    return F.softplus(scores[:, 1:] - scores[:, :1]).sum()


class _KernelBpr(torch.autograd.Function):
    """The slope is made with the loss: that of each negative, and back to the positives."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        from cerp.kernels.bpr import bpr_and_slope

        loss, slope = bpr_and_slope(scores.contiguous())
        ctx.save_for_backward(slope)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        slope: Tensor = ctx.saved_tensors[0]
        return slope * grad
