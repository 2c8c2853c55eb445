"""The penalty of all vectors of LightGCN as sums of rows, by a kernel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.models.embeddings.composition import Composition


def penalty_of_sums(
    weight: Tensor, composition: Composition, counts: Tensor, temperature: float
) -> Tensor:
    """`cerp.pruning.functional.pruning_penalty` of ``composition.table(weight)``.

    Only where `cerp.kernels.triton_there` has kernels. Differentiable in the weight, once.
    """
    penalty: Tensor = _SumPenalty.apply(  # type: ignore[no-untyped-call]
        weight, composition, counts, temperature
    )
    return penalty


class _SumPenalty(torch.autograd.Function):
    """No table is made forward, and backward there is one pass over that of gradients."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, composition: Composition, counts: Tensor, temperature: float
    ) -> Tensor:
        from cerp.kernels.penalty import penalty_of_sums

        rows = composition.rows_of_entities.columns.view(len(counts), -1)
        penalty, gradient = penalty_of_sums(weight.contiguous(), rows, counts, temperature)
        ctx.save_for_backward(gradient)
        ctx.composition = composition
        return penalty

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return ctx.composition.entities_of_rows.times(gradient).mul_(grad), None, None, None
