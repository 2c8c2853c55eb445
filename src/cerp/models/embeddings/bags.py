"""Bags of ids: the sum or mean of their vectors, where an ``nn.EmbeddingBag`` stood."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.errors import ConfigError, DataError
from cerp.models.embeddings.base import Embedding

Mode = Literal["sum", "mean"]


class EmbeddingBag(nn.Module):
    """``Σ_{k in bag} s_k e_k``, or the mean of ``e_k``, of an embedding's vectors.

    Bags are the rows of a (B, n) tensor, or parts of a line of ids that begin at ``offsets``, as in
    ``nn.EmbeddingBag``. The padding counts in none; an empty bag is zero.
    """

    def __init__(
        self, embedding: Embedding, mode: Mode = "mean", *, include_last_offset: bool = False
    ) -> None:
        super().__init__()
        if mode not in ("sum", "mean"):
            raise ConfigError(f"bags are put together by sum or mean, not by {mode!r}")
        self.embedding, self.mode, self.include_last_offset = embedding, mode, include_last_offset

    def forward(
        self, ids: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """One vector for each bag, (number of bags, embedding_dim)."""
        if (ids.ndim == 2) == (offsets is not None):
            raise DataError("give bags as rows of (B, n) ids, or a line of ids with their offsets")
        if per_sample_weights is not None and self.mode == "mean":
            raise ConfigError("weights of single ids go with mode='sum', as in nn.EmbeddingBag")
        if per_sample_weights is not None and per_sample_weights.shape != ids.shape:
            raise DataError(
                f"{tuple(per_sample_weights.shape)} weights for ids of the shape {tuple(ids.shape)}"
            )
        vectors: Tensor = self.embedding(ids)
        counted = torch.ones_like(ids, dtype=vectors.dtype)
        if self.embedding.padding_idx is not None:
            counted = (ids != self.embedding.padding_idx).to(vectors.dtype)
        weights = counted if per_sample_weights is None else per_sample_weights.to(vectors.dtype)
        if offsets is None:
            total, count = (vectors * weights.unsqueeze(-1)).sum(dim=1), counted.sum(dim=1)
        else:
            total = self._summed(vectors * weights.unsqueeze(-1), offsets)
            count = self._summed(counted.unsqueeze(-1), offsets).squeeze(-1)
        return total if self.mode == "sum" else total / count.clamp(min=1).unsqueeze(-1)

    def _summed(self, rows: Tensor, offsets: Tensor) -> Tensor:
        places = torch.arange(len(rows), device=rows.device)
        return F.embedding_bag(
            places,
            rows,
            offsets.long(),
            mode="sum",
            include_last_offset=self.include_last_offset,
        )
