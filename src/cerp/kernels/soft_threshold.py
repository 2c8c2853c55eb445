# ruff: noqa: ANN001, ANN201, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Soft thresholds and their gradient, each in one pass; see `cerp.pruning.functional`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

VALUES = 1024
"""Of a tile."""


def pruned_values(weight: Tensor, threshold: Tensor, shift: Tensor, ceiling: Tensor) -> Tensor:
    """``sign(W) · relu(|W| − c·σ(S + shift))``"""
    found = torch.empty_like(weight)
    _prune[(triton.cdiv(weight.numel(), VALUES),)](
        weight, threshold, shift, ceiling, found, weight.numel(), VALUES
    )
    return found


def pruned_gradients(
    pruned: Tensor, threshold: Tensor, shift: Tensor, ceiling: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """Of weights and of thresholds."""
    to_weight, to_threshold = torch.empty_like(pruned), torch.empty_like(threshold)
    _gradients[(triton.cdiv(pruned.numel(), VALUES),)](
        *(pruned, threshold, shift, ceiling, grad.contiguous(), to_weight, to_threshold),
        pruned.numel(),
        VALUES,
    )
    return to_weight, to_threshold


def errors(device: torch.device) -> float:
    """The largest error of Ŵ in a small example."""
    weight = torch.linspace(-2, 2, 100, device=device)
    threshold, shift, ceiling = weight - 1, weight.new_tensor(0.5), weight.new_tensor(1.5)
    found = pruned_values(weight, threshold, shift, ceiling)
    left = (weight.abs() - 1.5 * torch.sigmoid(threshold + 0.5)).relu()
    return float((found - weight.sign() * left).abs().max())


@triton.jit
def share_of_ceiling(threshold, shift):
    """``σ(S + shift)``"""
    return tl.sigmoid(threshold + shift)


@triton.jit
def shrunk(value, cut):
    """``sign(w) · relu(|w| − cut)``"""
    left = tl.maximum(tl.abs(value) - cut, 0.0)
    return tl.where(value < 0, -left, left)


@triton.jit
def _prune(weight, threshold, shift, ceiling, found, count, VALUES: tl.constexpr) -> None:
    places = tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    is_there = places < count
    value = tl.load(weight + places, mask=is_there, other=0.0)
    share = share_of_ceiling(tl.load(threshold + places, mask=is_there, other=0.0), tl.load(shift))
    tl.store(found + places, shrunk(value, tl.load(ceiling) * share), mask=is_there)


@triton.jit
def _gradients(
    pruned, threshold, shift, ceiling, grad, to_weight, to_threshold, count, VALUES: tl.constexpr
) -> None:
    places = tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    is_there = places < count
    value = tl.load(pruned + places, mask=is_there, other=0.0)
    incoming = tl.load(grad + places, mask=is_there, other=0.0)
    share = share_of_ceiling(tl.load(threshold + places, mask=is_there, other=0.0), tl.load(shift))
    alive = tl.where(value != 0, incoming, 0.0)
    slope = tl.load(ceiling) * share * (share - 1)
    tl.store(to_weight + places, alive, mask=is_there)
    tl.store(to_threshold + places, tl.where(value < 0, -alive, alive) * slope, mask=is_there)
