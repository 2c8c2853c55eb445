"""The full table: one vector of its own for every entity, nothing compressed."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.embeddings.base import Embedding


class FullEmbedding(Embedding):
    """``e_k = E[k]`` with E of N x d values, Xavier-uniform at the start."""

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
        """Xavier-uniform values; zeros for the padding."""
        nn.init.xavier_uniform_(self.weight, generator=generator)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        return F.embedding(ids, self.weight, self.padding_idx)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        if self.padding_idx is None:
            return self.weight
        padding = torch.tensor([self.padding_idx], device=self.weight.device)
        return self.weight.index_fill(0, padding, 0.0)

    @property
    def nnz(self) -> int:
        """How many non-zero values are stored."""
        return int(torch.count_nonzero(self.weight))
