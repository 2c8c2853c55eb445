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

PENALTY_VALUES = 1 << 18
"""Entries that the penalty looks at together on CPUs: they stay in cache."""


def soft_threshold(weight: Tensor, threshold: Tensor, ceiling: Tensor | float = 1.0) -> Tensor:
    """``Ŵ = sign(W) · relu(|W| − c·σ(S))``, element-wise; the paper's ceiling c is 1.

    With an incoming gradient G, ``∂L/∂W = G · 1{Ŵ≠0}`` and
    ``∂L/∂S = −c·σ'(S) · G · sign(W) · 1{Ŵ≠0}``.
    """
    pruned: Tensor = _SoftThreshold.apply(  # type: ignore[no-untyped-call]
        weight, threshold, ceiling
    )
    return pruned


class _SoftThreshold(torch.autograd.Function):
    """Keeps Ŵ and c·σ(S) for the backward pass, where plain autograd keeps five such tensors."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, threshold: Tensor, ceiling: Tensor | float) -> Tensor:
        cut = torch.sigmoid(threshold).mul_(ceiling)
        pruned = weight - torch.clamp(weight, -cut, cut)
        ctx.save_for_backward(pruned, cut)
        ctx.ceiling = ceiling
        return pruned

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        pruned, cut = ctx.saved_tensors
        slope = (cut / ctx.ceiling).sub_(1).mul_(cut)
        return grad * (pruned != 0), slope.mul_(grad).mul_(pruned.sign()), None


def pruning_penalty(vectors: Tensor, *, temperature: float, weight: Tensor | None = None) -> Tensor:
    """``−Σ_k w_k ‖tanh(η e_k)‖²``: minus a smooth count of the non-zero entries.

    At equal numbers of non-zeros it is lowest where the two summands of each
    e_k are non-zero in different places. ``weight`` (one per vector, 1 if not
    given) lets a vector that occurs several times count once.
    """
    counts = vectors.new_ones(vectors.shape[:-1]) if weight is None else weight
    penalty: Tensor = _Penalty.apply(vectors, counts, temperature)  # type: ignore[no-untyped-call]
    return penalty


class _Penalty(torch.autograd.Function):
    """Value and gradient in one pass; on CPUs a few rows at a time, and none of weight 0.

    The table of LightGCN has millions of entries, and plain autograd would
    write five temporaries of that size: on a CPU that is most of the step.
    Half of its rows are not in the batch.
    """

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, weight: Tensor, temperature: float) -> Tensor:
        table, counts = vectors.reshape(-1, vectors.shape[-1]), weight.reshape(-1)
        if vectors.is_cuda:
            gradient = table * temperature
            total = _to_gradient(gradient, counts, temperature)
        else:
            gradient, total = torch.zeros_like(table), table.new_zeros(())
            rows_at_once = max(PENALTY_VALUES // table.shape[1], 1)
            for rows in torch.split(counts.nonzero().squeeze(1), rows_at_once):
                some = table.index_select(0, rows).mul_(temperature)
                total += _to_gradient(some, counts[rows], temperature)
                gradient.index_copy_(0, rows, some)
        gradient = gradient.view(vectors.shape)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        # In place, for its size; autograd refuses to come here a second time.
        return gradient.mul_(grad), None, None


def _to_gradient(scaled: Tensor, counts: Tensor, temperature: float) -> Tensor:
    """The penalty of vectors given as ηe, which give way to its gradient.

    d/de of -w tanh²(ηe) is ``-2ηw (tanh(ηe) − tanh³(ηe))``.
    """
    smooth = scaled.tanh_()
    squared = smooth.square()
    smooth.addcmul_(smooth, squared, value=-1).mul_((-2 * temperature * counts)[:, None])
    return -torch.dot(counts, squared.sum(dim=1))


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
    numbers = torch.finfo(weight.dtype)
    size = (weight.detach().abs() / ceiling).clamp_(numbers.tiny, 1 - numbers.eps)
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
