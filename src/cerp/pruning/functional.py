"""The arithmetic of pruning, as pure functions on tensors.

Notation as in the paper: weights W (a codebook P or Q), thresholds S of the
same shape, σ the logistic function, vectors e_k, temperature η.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.kernels.triton_there import in_use

PENALTY_VALUES = 1 << 18
"""Entries that the penalty looks at together on CPUs: they stay in cache."""


def soft_threshold(
    weight: Tensor,
    threshold: Tensor,
    ceiling: Tensor | float = 1.0,
    shift: Tensor | None = None,
) -> Tensor:
    """``Ŵ = sign(W) · relu(|W| − c·σ(S + a))``, element-wise; the paper has c = 1 and no shift a.

    With an incoming gradient G, ``∂L/∂W = G · 1{Ŵ≠0}`` and
    ``∂L/∂S = −c·σ'(S + a) · G · sign(W) · 1{Ŵ≠0}``. The result has the type of W, and all is
    computed in that of S: thresholds near -100 are half a unit apart in bfloat16, so they are
    float32 beside weights of 16 bits.
    """
    if _has_kernels(weight, threshold, ceiling, shift):
        found: Tensor = _KernelSoftThreshold.apply(  # type: ignore[no-untyped-call]
            weight, threshold, shift, ceiling
        )
        return found
    moved = threshold if shift is None else threshold + shift
    pruned: Tensor = _SoftThreshold.apply(  # type: ignore[no-untyped-call]
        weight, moved, ceiling
    )
    return pruned


def _has_kernels(
    weight: Tensor, threshold: Tensor, ceiling: Tensor | float, shift: Tensor | None
) -> bool:
    if torch.compiler.is_compiling():  # which makes kernels of its own
        return False
    return (
        in_use(weight.device)
        and isinstance(ceiling, Tensor)
        and shift is not None
        and all(each.dtype == torch.float32 for each in (weight, threshold, shift, ceiling))
        and weight.is_contiguous()
        and threshold.is_contiguous()
    )


class _KernelSoftThreshold(torch.autograd.Function):
    """One pass forward and one backward, where the plain way takes a dozen."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, threshold: Tensor, shift: Tensor, ceiling: Tensor
    ) -> Tensor:
        from cerp.kernels.soft_threshold import pruned_values

        pruned = pruned_values(weight, threshold, shift, ceiling)
        ctx.save_for_backward(pruned, threshold, shift, ceiling)
        return pruned

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        from cerp.kernels.soft_threshold import pruned_gradients

        pruned, threshold, shift, ceiling = ctx.saved_tensors
        return *pruned_gradients(pruned, threshold, shift, ceiling, grad), None, None


class _SoftThreshold(torch.autograd.Function):
    """Keeps two tensors for the backward pass, where plain autograd keeps five."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, threshold: Tensor, ceiling: Tensor | float) -> Tensor:
        pruned, slope = pruned_and_slope(weight, torch.sigmoid(threshold), ceiling)
        ctx.save_for_backward(pruned, slope)
        return pruned.to(weight.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        pruned, slope = ctx.saved_tensors
        # Booleans in the place of hardshrink's derivative are five times slower on CPUs.
        kept = torch.ops.aten.hardshrink_backward(grad.to(pruned.dtype), pruned, 0.0)
        return kept.to(grad.dtype), slope * kept, None


def pruned_and_slope(
    weight: Tensor, share: Tensor, ceiling: Tensor | float
) -> tuple[Tensor, Tensor]:
    """Ŵ, and ``∂Ŵ/∂S = −c·σ'(S)·sign(W)`` where it is not 0, in the memory of ``share = σ(S)``.

    W is clamped to ``sign(W)·c·σ(S)`` there. The slope is made now, while all is in cache, and no
    memory is taken that was not used before: what is new to the cache is most of the time.
    """
    cut = share.mul_(ceiling)
    clamped = torch.neg(cut)
    torch.clamp(weight, clamped, cut, out=clamped)
    slope = cut.div_(ceiling).sub_(1).mul_(clamped)
    return torch.sub(weight, clamped, out=clamped), slope


def pruning_penalty(vectors: Tensor, *, temperature: float, weight: Tensor | None = None) -> Tensor:
    """``−Σ_k w_k ‖tanh(η e_k)‖²``: minus a smooth count of the non-zero entries.

    At equal numbers of non-zeros it is lowest where the two summands of each
    e_k are non-zero in different places. ``weight`` (one per vector, 1 if not
    given) lets a vector that occurs several times count once.
    """
    counts = vectors.new_ones(vectors.shape[:-1]) if weight is None else weight
    way = _KeptPenalty if vectors.is_cuda else _Penalty
    penalty: Tensor = way.apply(vectors, counts, temperature)  # type: ignore[no-untyped-call]
    return penalty


class _Penalty(torch.autograd.Function):
    """Value and gradient in one pass, a few rows at a time.

    The table of LightGCN has millions of entries, and plain autograd would
    write five temporaries of that size: on a CPU that is most of the step.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor, temperature: float) -> Tensor:
        table, counts = vectors.reshape(-1, vectors.shape[-1]), weight.reshape(-1, 1)
        gradient, total = table.new_empty(table.shape), table.new_zeros(())
        rows = PENALTY_VALUES // table.shape[1]
        pieces = (torch.split(each, max(rows, 1)) for each in (table, counts, gradient))
        for some, count, place in zip(*pieces, strict=True):
            total += write_penalty_gradient(place, some, count, temperature)
        ctx.gradient = gradient.view(vectors.shape)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        # In place, for its size, and handed over: what else there is will be added to it in place.
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:
            raise RuntimeError("a penalty has its gradient once; compute it again to go back twice")
        return gradient.mul_(grad), None, None


class _KeptPenalty(torch.autograd.Function):
    """On GPUs, where passes over the table are what counts: three forward and two backward."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor, temperature: float) -> Tensor:
        smooth = (vectors * temperature).tanh_()
        ctx.save_for_backward(smooth, weight)
        ctx.temperature = temperature
        squares = torch.linalg.vector_norm(smooth, dim=-1).square_()
        return -torch.dot(squares.flatten(), weight.flatten())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        smooth, weight = ctx.saved_tensors
        slope = smooth * (-2 * ctx.temperature * grad * weight).unsqueeze(-1)
        return torch.ops.aten.tanh_backward(slope, smooth), None, None


def write_penalty_gradient(
    place: Tensor, vectors: Tensor, counts: Tensor, temperature: float
) -> Tensor:
    """The penalty of some vectors, each as often as ``counts`` (n, 1) says; its gradient goes to
    ``place``.

    d/de of -w tanh²(ηe) is ``-2ηw (tanh(ηe) − tanh³(ηe))``. On CPUs ``tanh(x) = 2σ(2x) − 1``
    takes a quarter of the time of torch's own, and is as exact beside numbers near 1.
    """
    smooth = (vectors * (2 * temperature)).sigmoid_().mul_(2).sub_(1)
    torch.mul(smooth, -2 * temperature * counts, out=place)
    penalty = torch.dot(smooth.flatten(), place.flatten()) / (2 * temperature)
    place.addcmul_(place, smooth.square_(), value=-1)
    return penalty


def margin(weight: Tensor, threshold: Tensor, ceiling: Tensor | float = 1.0) -> Tensor:
    """``|W| − c·σ(S)``: how far each entry is from being pruned; positive entries survive."""
    return weight.abs() - torch.sigmoid(threshold).mul_(ceiling)


def top_mask(score: Tensor, count: int) -> Tensor:
    """Exactly the ``count`` entries with the highest scores, ties by position, as booleans.

    All entries if there are no more than ``count``.
    """
    if count >= score.numel():
        return torch.ones_like(score, dtype=torch.bool)
    flat = score.detach().flatten()
    best_left_out = _descending(flat, count)
    above, level = flat > best_left_out, flat == best_left_out
    room = count - above.sum()
    return (above | (level & (level.cumsum(0) <= room))).view_as(score)


def shift_to_keep(
    weight: Tensor, threshold: Tensor, count: int, ceiling: Tensor | float = 1.0
) -> Tensor:
    """The common shift a of all thresholds at which ``count`` entries survive.

    An entry survives where ``|W| > c·σ(S + a)``, that is where
    ``logit(|W|/c) − S > a``; so a is the (count+1)-th largest of that score. Ties
    and rounding can leave a few entries more or less. No shift prunes entries
    with |W| >= c, since σ < 1.
    """
    single = torch.promote_types(weight.dtype, torch.float32)
    numbers = torch.finfo(single)
    size = (weight.detach().abs().to(single) / ceiling).clamp_(numbers.tiny, 1 - numbers.eps)
    score = torch.logit(size).sub_(threshold.detach())
    if count >= score.numel():
        return score.min() - 1
    return _descending(score.flatten(), count)


def _descending(values: Tensor, index: int) -> Tensor:
    """The value at ``index`` if all were sorted from high to low.

    1.28 million values: 3 ms by NumPy's partition on two cores, where torch's
    `kthvalue` takes 27 ms and a sort 154 ms; on GPUs a sort is the fastest.
    """
    ascending = len(values) - 1 - index
    if values.device.type != "cpu" or values.dtype == torch.bfloat16:  # which NumPy lacks
        return torch.sort(values).values[ascending]
    return values.new_tensor(np.partition(values.numpy(), ascending)[ascending])


def jaccard(first: Tensor, second: Tensor) -> float:
    """``|A ∩ B| / |A ∪ B|`` of two masks; 1 if both are empty."""
    union = int((first | second).sum())
    return int((first & second).sum()) / union if union else 1.0
