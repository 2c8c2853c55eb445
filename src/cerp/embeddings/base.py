"""What every embedding method offers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from cerp.errors import ConfigError


class Embedding(nn.Module, ABC):
    """Vectors for entities 0..num_embeddings-1: users first, then items.

    Subclasses are siblings: the backbones, the training loop, the budget and
    the evaluation treat them alike. The first three arguments are those of
    ``nn.Embedding``, and the vector of ``padding_idx`` is always zero.
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None) -> None:
        super().__init__()
        if num_embeddings < 1 or embedding_dim < 1:
            raise ConfigError(
                "an embedding needs at least 1 entity and 1 dimension, "
                f"got {num_embeddings} and {embedding_dim}"
            )
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ConfigError(
                f"padding_idx {padding_idx} is none of the {num_embeddings:,} embeddings"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings

    @abstractmethod
    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""

    @abstractmethod
    def table(self) -> Tensor:
        """The vectors of all entities, for backbones that need every one of them."""

    @property
    @abstractmethod
    def nnz(self) -> int:
        """How many non-zero values are stored."""

    @property
    def sparsity(self) -> float:
        """``1 − nnz / (N·d)``: the pruned share of the full table."""
        return 1 - self.nnz / (self.num_embeddings * self.embedding_dim)

    def penalty(self, ids: Tensor, temperature: float = 100.0) -> Tensor:
        """What pruning adds to the loss for a batch of ids: 0 where nothing is being pruned."""
        return torch.zeros((), device=ids.device)
