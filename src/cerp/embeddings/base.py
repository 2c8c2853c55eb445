"""What every embedding method offers, and the registry that finds it by name."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn


class Embedding(nn.Module):
    """Vectors for entities 0..num_embeddings-1: users first, then items.

    Subclasses are siblings: the backbones, the training loop, the budget and
    the evaluation treat them alike.
    """

    num_embeddings: int
    embedding_dim: int

    @abstractmethod
    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""

    @abstractmethod
    def table(self) -> Tensor:
        """The vectors of all entities, for backbones that need every one of them."""
