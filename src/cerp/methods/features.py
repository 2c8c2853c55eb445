"""Graph features times a small trained matrix: vectors without a table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.assignment.graph_vectors import graph_vectors
from cerp.errors import BudgetError, ConfigError
from cerp.methods.base import Context, Method
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.full import INITIAL_DEVIATION
from cerp.training.search_result import Found

MOST_FEATURES = 256
"""Singular vectors beyond say little, and take their time."""


class FeatureEmbedding(Embedding):
    """``e_k = x_k W`` with fixed features x_k of length f and a trained W of f x d values.

    The family of Lighter-X (PVLDB 2025): the features are the leading singular vectors of the
    training graph (`cerp.assignment.graph_vectors`), at length 1. They are computed from the graph
    whenever it is there, so W is all that is stored and counted; the graph has to be kept, and a
    model file has no such features, so that only propagated tables can be written.
    """

    capturable = True

    features: Tensor

    def __init__(
        self,
        features: npt.NDArray[np.float32],
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(len(features), embedding_dim, padding_idx)
        self.register_buffer("features", torch.from_numpy(np.array(features, dtype=np.float32)))
        self.matrix = nn.Parameter(torch.empty(features.shape[1], embedding_dim))
        nn.init.normal_(self.matrix, std=INITIAL_DEVIATION, generator=generator)

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        return self._zero_padding(F.embedding(ids, self.features) @ self.matrix, ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        return self._zero_padding(self.features @ self.matrix)

    @property
    def nnz(self) -> int:
        """``f d``"""
        return self.matrix.numel()


class Features(Method):
    """Features of the training graph times a trained matrix; as many features as fit, at most 256.

    ``damping`` is that of the graph's normalisation, in mean degrees.
    """

    def __init__(self, most: int = MOST_FEATURES, damping: float = 1.0) -> None:
        if most < 1 or damping < 0:
            raise ConfigError(
                f"graph features need most >= 1 and damping >= 0, got {most} and {damping}"
            )
        self._most, self._damping = most, damping

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """As many features as the limit has room for rows of W."""
        vectors = graph_vectors(
            context.splits.train,
            rank=self._count(context, limit),
            damping=self._damping,
            seed=context.config.seed,
        )
        return FeatureEmbedding(vectors.table(), context.config.dim, generator=context.generator())

    def placeholder(self, context: Context, limit: int) -> Embedding:
        """Of as many features, none of them computed."""
        shape = context.splits.num_entities, self._count(context, limit)
        return FeatureEmbedding(np.zeros(shape, dtype=np.float32), context.config.dim)

    def _count(self, context: Context, limit: int) -> int:
        dim = context.config.dim
        if limit < dim:
            raise BudgetError(
                f"a budget of {limit:,} values is too small for graph features: the matrix has "
                f"{dim:,} for each feature, and one is the smallest possible budget"
            )
        return min(limit // dim, self._most)
