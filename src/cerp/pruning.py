"""The arithmetic of pruning, as pure functions on tensors.

Notation as in the paper: weights W (a codebook P or Q), thresholds S of the
same shape, σ the logistic function, vectors e_k, temperature η.
"""

from __future__ import annotations

import torch
from torch import Tensor


def soft_threshold(weight: Tensor, threshold: Tensor) -> Tensor:
    """``Ŵ = sign(W) · relu(|W| − σ(S))``, element-wise.

    Autograd gives ``∂L/∂W = G · 1{Ŵ≠0}`` and
    ``∂L/∂S = −σ'(S) · G · sign(W) · 1{Ŵ≠0}`` for an incoming gradient G.
    """
    return torch.sign(weight) * torch.relu(weight.abs() - torch.sigmoid(threshold))


def pruning_penalty(vectors: Tensor, *, temperature: float, weight: Tensor | None = None) -> Tensor:
    """``−Σ_k w_k ‖tanh(η e_k)‖²``: minus a smooth count of the non-zero entries.

    At equal numbers of non-zeros it is lowest where the two summands of each
    e_k are non-zero in different places. ``weight`` (one per vector, 1 if not
    given) lets a vector that occurs several times count once.
    """
    counted = torch.tanh(vectors * temperature).square().sum(dim=-1)
    return -(counted if weight is None else counted * weight).sum()


def margin(weight: Tensor, threshold: Tensor) -> Tensor:
    """``|W| − σ(S)``: how far each entry is from being pruned; positive entries survive."""
    return weight.abs() - torch.sigmoid(threshold)


def top_mask(score: Tensor, count: int) -> Tensor:
    """Exactly the ``count`` entries with the highest scores, ties by position, as booleans.

    All entries if there are no more than ``count``.
    """
    flat = score.flatten()
    if count >= flat.numel():
        return torch.ones_like(score, dtype=torch.bool)
    order = torch.sort(flat, descending=True, stable=True).indices
    mask = torch.zeros_like(flat, dtype=torch.bool)
    mask[order[:count]] = True
    return mask.view_as(score)


def shift_to_keep(weight: Tensor, threshold: Tensor, count: int) -> Tensor:
    """The common shift c of all thresholds at which ``count`` entries survive.

    An entry survives where ``|W| > σ(S + c)``, that is where
    ``logit|W| − S > c``; so c is the (count+1)-th largest of that score.
    """
    tiny = torch.finfo(weight.dtype).tiny
    score = (torch.logit(weight.abs().clamp(tiny, 1 - 1e-6)) - threshold).flatten()
    if count >= score.numel():
        return score.min() - 1
    return torch.kthvalue(score, score.numel() - count).values


def jaccard(first: Tensor, second: Tensor) -> float:
    """``|A ∩ B| / |A ∪ B|`` of two masks; 1 if both are empty."""
    union = int((first | second).sum())
    return int((first & second).sum()) / union if union else 1.0
