"""DeepFM and DCN-v2 over the vectors of fields, whatever module these come from."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn


class DeepFM(nn.Module):
    """``b + ⟨w, e⟩ + Σ_f<g ⟨e_f, e_g⟩ + MLP(e)`` of the vectors e of all fields.

    The first-order weight of an id is ``⟨w_f, e_f⟩``, no table of its own: it is within the budget.
    """

    def __init__(
        self, embedding: nn.Module, fields: int, dim: int, hidden: tuple[int, ...] = (64, 32)
    ) -> None:
        super().__init__()
        self.embedding: Any = embedding
        self.first_order = nn.Linear(fields * dim, 1)
        self.deep = mlp(fields * dim, *hidden, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of rows of ids, (B, fields) to (B,)."""
        vectors = self.embedding(ids)
        flat = vectors.flatten(1)
        pairs = (vectors.sum(1).square() - vectors.square().sum(1)).sum(-1) / 2
        logits: Tensor = pairs + (self.first_order(flat) + self.deep(flat)).squeeze(-1)
        return logits


class DCNv2(nn.Module):
    """Crosses ``x' = x₀ ⊙ (U V x + b) + x`` of low rank beside an MLP, both into one layer."""

    def __init__(
        self, embedding: nn.Module, fields: int, dim: int, *, crosses: int = 2, rank: int = 32
    ) -> None:
        super().__init__()
        width = fields * dim
        self.embedding: Any = embedding
        self.down = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(crosses))
        self.up = nn.ModuleList(nn.Linear(rank, width) for _ in range(crosses))
        self.deep = mlp(width, 64, 32)
        self.last = nn.Linear(width + 32, 1)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of rows of ids, (B, fields) to (B,)."""
        first = crossed = self.embedding(ids).flatten(1)
        for down, up in zip(self.down, self.up, strict=True):
            crossed = crossed + first * up(down(crossed))
        both = torch.cat([crossed, self.deep(first).relu()], dim=1)
        logits: Tensor = self.last(both).squeeze(-1)
        return logits


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.ReLU()] if layers else []
        layers.append(nn.Linear(before, after))
    return nn.Sequential(*layers)
