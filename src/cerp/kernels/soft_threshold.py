# ruff: noqa: ANN001, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Soft thresholds and their gradient, each in one pass; see `cerp.pruning.functional`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

VALUES = 1024
"""Of a tile."""


def pruned_values(weight: Tensor, threshold: Tensor, ceiling: Tensor) -> Tensor:
    """``sign(W) · relu(|W| − c·σ(S))``"""
    found = torch.empty_like(weight)
    _prune[(triton.cdiv(weight.numel(), VALUES),)](
        weight, threshold, ceiling, found, weight.numel(), VALUES
    )
    return found


def pruned_gradients(
    pruned: Tensor, threshold: Tensor, ceiling: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """Of weights and of thresholds."""
    to_weight, to_threshold = torch.empty_like(pruned), torch.empty_like(threshold)
    _gradients[(triton.cdiv(pruned.numel(), VALUES),)](
        *(pruned, threshold, ceiling, grad.contiguous(), to_weight, to_threshold),
        pruned.numel(),
        VALUES,
    )
    return to_weight, to_threshold


@triton.jit
def _prune(weight, threshold, ceiling, found, count, VALUES: tl.constexpr) -> None:
    places = tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    is_there = places < count
    value = tl.load(weight + places, mask=is_there, other=0.0)
    cut = tl.load(ceiling) * tl.sigmoid(tl.load(threshold + places, mask=is_there, other=0.0))
    left = tl.maximum(tl.abs(value) - cut, 0.0)
    tl.store(found + places, tl.where(value < 0, -left, left), mask=is_there)


@triton.jit
def _gradients(
    pruned, threshold, ceiling, grad, to_weight, to_threshold, count, VALUES: tl.constexpr
) -> None:
    places = tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    is_there = places < count
    value = tl.load(pruned + places, mask=is_there, other=0.0)
    incoming = tl.load(grad + places, mask=is_there, other=0.0)
    share = tl.sigmoid(tl.load(threshold + places, mask=is_there, other=0.0))
    alive = tl.where(value != 0, incoming, 0.0)
    slope = tl.load(ceiling) * share * (share - 1)
    tl.store(to_weight + places, alive, mask=is_there)
    tl.store(to_threshold + places, tl.where(value < 0, -alive, alive) * slope, mask=is_there)
