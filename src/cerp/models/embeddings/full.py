"""The full table: one vector of its own for every entity, nothing compressed."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.assignment.index import Index
from cerp.models.embeddings.base import Embedding, Stored, StoredTable

INITIAL_DEVIATION = 0.1


class FullEmbedding(Embedding):
    """``e_k = E[k]`` with E of N x d values, drawn from N(0, 0.1²) at the start.

    As LightGCN has it. From Xavier's values, ten times smaller for large N, the best schedule
    without decay came to .093 on Gowalla's validation part, from these to .097
    (results/choices.json).
    """

    capturable = True

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Normal values; zeros for the padding."""
        nn.init.normal_(self.weight, std=INITIAL_DEVIATION, generator=generator)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        return F.embedding(ids, self.weight, self.padding_idx)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        return self._zero_padding(self.weight)

    @property
    def nnz(self) -> int:
        """All values of the table: they are stored, zero or not."""
        return self.weight.numel()

    def stored(self) -> Stored:
        """The table."""
        return Stored((StoredTable(self.weight, Index("identity")),))
