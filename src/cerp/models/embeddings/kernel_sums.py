"""Lookups on GPUs by kernels: rows are found, pruned and summed in one launch, and their
gradients in another; at the sizes of a batch launches are what a lookup costs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.kernels.triton_there import pay_off

WIDEST = 2048
"""Dimensions of vectors; longer ones would not fit a tile."""
MOST_PRUNED = 1 << 23
"""Values of rows that a lookup prunes as it reads them; for more, whole codebooks come first."""


class Lookup(NamedTuple):
    """Which vectors are looked up."""

    ids: Tensor
    """(n,), whole numbers."""
    rows: Tensor
    """(N, m) rows of all ids, or (n, m) of these."""
    is_of_all: bool
    padding: int | None
    """An id whose vector is zero."""


class Pruning(NamedTuple):
    """``Ŵ = sign(W)·relu(|W| − c·σ(S + shift))``"""

    threshold: Tensor
    shift: Tensor
    ceiling: Tensor


def takes(weight: Tensor, ids: Tensor) -> bool:
    """Whether kernels are for a lookup."""
    return (
        ids.is_cuda
        and not torch.compiler.is_compiling()  # which makes kernels of its own
        and ids.dtype in (torch.int64, torch.int32)
        and weight.dtype == torch.float32
        and weight.device == ids.device
        and weight.is_contiguous()
        and weight.shape[1] <= WIDEST
        # Kernels are launched on the current device.
        and ids.get_device() == torch.cuda.current_device()
        and pay_off(ids.device, ids.numel())
    )


def sums_by_kernels(
    weight: Tensor, lookup: Lookup, pruning: Pruning | None = None, mask: Tensor | None = None
) -> Tensor:
    """``Σ_j Ŵ[r_j]``, (n, d), of weights that are pruned, masked, or neither.

    Differentiable in weight and threshold, once; sums of gradients come in any order.
    """
    vectors: Tensor = _KernelSums.apply(  # type: ignore[no-untyped-call]
        weight, *(pruning or (None, None, None)), mask, lookup
    )
    return vectors


class _KernelSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        threshold: Tensor | None,
        shift: Tensor | None,
        ceiling: Tensor | None,
        mask: Tensor | None,
        lookup: Lookup,
    ) -> Tensor:
        from cerp.kernels.row_sums import row_sums

        ids, rows, is_of_all, padding = lookup
        # Weights are read on the way back where they say what was pruned.
        kept = None if threshold is None else weight
        ctx.save_for_backward(kept, threshold, shift, ceiling, mask, ids, rows)
        ctx.settings = is_of_all, padding, weight.shape
        return row_sums(weight, threshold, shift, ceiling, mask, ids, rows, is_of_all, padding)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        from cerp.kernels.row_sums import row_gradients

        found = row_gradients(grad.contiguous(), *ctx.saved_tensors, *ctx.settings)
        return *found, None, None, None, None
