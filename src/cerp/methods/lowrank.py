"""Low rank: a narrow table, and one matrix that widens all of its rows."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.errors import BudgetError, ConfigError
from cerp.methods.made_to_fit import MadeToFit
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.full import INITIAL_DEVIATION


class LowRankEmbedding(Embedding):
    """``e_k = A[k] B`` with A of N x r and B of r x d values, ``r = ⌊t / (N + d)⌋``.

    Where scores are dot products the model could be written as a table of width r, since
    ``⟨A[u] B, A[i] B⟩`` depends on B by BBᵀ alone: against UD of the same width it shows what the
    longer way of training is worth. With the MLP, vectors have all d entries. Both factors start
    normal around 0, so that entries of a vector have the deviation of the full table's.
    """

    capturable = True

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        rank: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        if rank < 1:
            raise ConfigError(f"a table of low rank needs a rank of at least 1, got {rank}")
        self.rows = nn.Parameter(torch.empty(num_embeddings, rank))
        self.matrix = nn.Parameter(torch.empty(rank, embedding_dim))
        # A sum of r products of two such numbers has the variance r s^4.
        deviation = math.sqrt(INITIAL_DEVIATION / math.sqrt(rank))
        for factor in (self.rows, self.matrix):
            nn.init.normal_(factor, std=deviation, generator=generator)

    @classmethod
    def for_limit(
        cls,
        num_embeddings: int,
        embedding_dim: int,
        limit: int,
        *,
        padding_idx: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LowRankEmbedding:
        """The highest rank whose two factors have at most ``limit`` values, but at most d."""
        rank = min(limit // (num_embeddings + embedding_dim), embedding_dim)
        if rank < 1:
            raise BudgetError(
                f"a budget of {limit:,} values is too small for a table of rank 1: one number for "
                f"each entity and a row of {embedding_dim:,}, so that the smallest possible budget "
                f"is {num_embeddings + embedding_dim:,}"
            )
        return cls(num_embeddings, embedding_dim, padding_idx, rank=rank, generator=generator)

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        return self._zero_padding(F.embedding(ids, self.rows) @ self.matrix, ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        return self._zero_padding(self.rows @ self.matrix)

    @property
    def nnz(self) -> int:
        """``(N + d) r``"""
        return self.rows.numel() + self.matrix.numel()


class LowRank(MadeToFit):
    """A table that is the product of two narrow ones."""

    embedding_class = LowRankEmbedding
