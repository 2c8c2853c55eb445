"""A single table that entities share at random: what a learned or chosen sharing has to beat."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.assignment.index import HASH_PRIME, Index
from cerp.errors import BudgetError, ConfigError
from cerp.methods.made_to_fit import MadeToFit
from cerp.models.embeddings.base import Embedding, Stored, StoredTable, checked_ids
from cerp.models.embeddings.composition import Composition

FACTOR_END = 2**21
"""Factors are below this: a·k + c then stays below 2^53, exact in JavaScript's numbers too."""


class HashedEmbedding(Embedding):
    """``e_k = W[h(k)]`` with ``h(k) = ((a·k + c) mod p) mod rows``, p = 2^31 - 1.

    The hashing trick (Weinberger et al., ICML 2009) without signs: entities
    with the same row have the same vector. a and c are drawn once and saved
    with the weights.
    """

    capturable = True

    coefficients: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        rows: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        if rows < 1:
            raise ConfigError(f"a hashed table needs at least 1 row, got {rows}")
        factor = torch.randint(1, FACTOR_END, (1,), generator=generator)
        offset = torch.randint(0, HASH_PRIME, (1,), generator=generator)
        self.register_buffer("coefficients", torch.cat([factor, offset]))
        self.weight = nn.Parameter(torch.empty(rows, embedding_dim))
        nn.init.xavier_uniform_(self.weight, generator=generator)
        self._composition: Composition | None = None

    @classmethod
    def for_limit(
        cls,
        num_embeddings: int,
        embedding_dim: int,
        limit: int,
        *,
        padding_idx: int | None = None,
        generator: torch.Generator | None = None,
    ) -> HashedEmbedding:
        """The most rows of ``embedding_dim`` values that fit into ``limit``, but at most N."""
        rows = min(limit // embedding_dim, num_embeddings)
        if rows < 1:
            raise BudgetError(
                f"a budget of {limit:,} values is too small for a hashed table: one row, the "
                f"smallest possible budget, has {embedding_dim:,}"
            )
        return cls(num_embeddings, embedding_dim, padding_idx, rows=rows, generator=generator)

    def rows_of(self, ids: Tensor) -> Tensor:
        """``h(k)``; -1, which lookups refuse, for ids out of range."""
        ids = checked_ids(ids).long()
        factor, offset = self.coefficients
        rows = (ids * factor + offset) % HASH_PRIME % len(self.weight)
        return torch.where((ids >= 0) & (ids < self.num_embeddings), rows, -1)

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        return self._zero_padding(F.embedding(self.rows_of(ids), self.weight), ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        device = self.weight.device
        if self._composition is None or self._composition.device != device:
            ids = torch.arange(self.num_embeddings, device=device)
            self._composition = Composition.of([self.rows_of(ids)], len(self.weight))
        return self._zero_padding(self._composition.table(self.weight))

    @property
    def nnz(self) -> int:
        """All values of the table: they are stored, zero or not."""
        return self.weight.numel()

    def facts(self) -> dict[str, Any]:
        """Rows are shared, but every entity's vector is whole."""
        return {"avg_dim": float(self.embedding_dim), "overlap": None}

    def stored(self) -> Stored:
        """The table; the file computes the hash again."""
        factor, offset = self.coefficients.tolist()
        index = Index("hashed", len(self.weight), factor, offset)
        return Stored((StoredTable(self.weight, index),))

    def _load_from_state_dict(self, *arguments: Any) -> None:
        self._composition = None
        super()._load_from_state_dict(*arguments)


class Hash(MadeToFit):
    """A single table whose rows are shared at random."""

    embedding_class = HashedEmbedding
