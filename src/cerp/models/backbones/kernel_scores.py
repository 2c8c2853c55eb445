"""Pair scores by M and kernels: each row of M that a batch names is read once, where it lies."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.models.backbones.chosen_rows import stored_as


def kernel_scores(
    weight: Tensor, matrix: Tensor, scale: float, users: Tensor, items: Tensor
) -> Tensor:
    """``s_bj = ⟨z_users[b], z_items[b, j]⟩`` with ``Z = M · weight``; users and items are its rows.

    M comes times a scale, in half precision. Only where `cerp.kernels.triton_there` has kernels.
    Differentiable in the weight, once.
    """
    scores: Tensor = _KernelScores.apply(  # type: ignore[no-untyped-call]
        weight, matrix, scale, users, items
    )
    return scores


class _KernelScores(torch.autograd.Function):
    """Vectors of distinct entities alone are kept for the way back."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, matrix: Tensor, scale: float, users: Tensor, items: Tensor
    ) -> Tensor:
        from cerp.kernels.pair_scores import pair_scores
        from cerp.kernels.row_products import rows_times

        named = torch.cat([users, items.flatten()])
        most = min(len(named), len(matrix))
        rows, places, count = distinct(named, len(matrix))
        stored, stored_scale = stored_as(weight, matrix.dtype)
        padded = F.pad(stored, (0, 0, 0, matrix.shape[1] - len(weight)))
        found = rows_times(matrix, rows, count, most, padded)
        factor = (stored_scale * scale).reciprocal_()
        ctx.save_for_backward(matrix, rows, places, count, found, factor)
        ctx.scale, ctx.count = scale, len(weight)
        return pair_scores(found, places[:, None], items.shape[1], factor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        from cerp.kernels.pair_scores import pair_gradient
        from cerp.kernels.row_products import rows_transposed_times

        matrix, rows, places, count, found, factor = ctx.saved_tensors
        total = pair_gradient(found, places[:, None], grad, factor=factor)
        stored, scale = stored_as(total, matrix.dtype)
        product = rows_transposed_times(matrix, rows, count, stored)
        return product[: ctx.count].div_(scale * ctx.scale), None, None, None, None


def distinct(named: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Which of ``size`` rows are named, ascending; where each name is among them; their count.

    What stands behind the first ``count`` rows means nothing.
    """
    is_named = torch.zeros(size, dtype=torch.int32, device=named.device).index_fill_(0, named, 1)
    last = is_named.cumsum(0, dtype=torch.int32)
    slots = torch.where(is_named != 0, last - 1, size).long()  # the others all to one beyond
    rows = torch.arange(size, dtype=torch.int32, device=named.device)
    found = rows.new_zeros(size + 1).scatter_(0, slots, rows)
    return found, slots[named], last[-1:]
