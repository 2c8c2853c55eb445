"""LightGCN: vectors averaged over neighbourhoods of the training graph."""

from __future__ import annotations

import torch
from torch import Tensor

from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.models.backbones.base import Backbone, BatchOutput, BatchVectors, DotScorer
from cerp.models.backbones.propagation import CPU_COLUMN_BLOCK, Graph
from cerp.models.embeddings.base import Embedding


class LightGCN(Backbone):
    """``score(u, i) = ⟨z_u, z_i⟩`` with ``Z = 1/(L+1) · Σ_{l=0..L} Â^l E`` (He et al., SIGIR 2020).

    Â is the normalised adjacency of the training interactions, without
    self-loops (see `Graph`). No weights of its own.
    """

    capturable = True
    needs_graph = True
    head = "dot"

    def __init__(
        self,
        train: Interactions,
        *,
        embedding_dim: int,
        generator: torch.Generator | None = None,
        layers: int = 4,
    ) -> None:
        super().__init__(train, embedding_dim=embedding_dim)
        if layers < 1:
            raise ConfigError(
                f"LightGCN needs at least 1 layer, got {layers}; without propagation it is 'mf'"
            )
        self.layers = layers
        self.graph = Graph(train)

    def forward(self, embedding: Embedding, users: Tensor, items: Tensor) -> BatchOutput:
        """Scores of a training batch: user codes (B,) against item codes (B, m)."""
        width = self.embedding_dim if users.is_cuda else CPU_COLUMN_BLOCK
        blocks = embedding.table_blocks(self.graph.entities, width)
        users, items = self.graph.nodes[users], self.graph.nodes[items + self.num_users]
        scores = self.graph.pair_scores(blocks, self.layers, users, items)

        def vectors() -> BatchVectors:
            return BatchVectors(blocks, self._node_counts(scores, users, items))

        return BatchOutput(scores, vectors)

    @torch.no_grad()
    def scorer(self, embedding: Embedding) -> DotScorer:
        """Everything is propagated once."""
        propagated = self.graph.propagate(embedding.table(), self.layers)
        users, items = torch.split(propagated, [self.num_users, self.num_items])
        return DotScorer(users.__getitem__, items)

    def _node_counts(self, scores: Tensor, users: Tensor, items: Tensor) -> Tensor:
        """1 for each user of the batch, the number of draws for each item, 0 for the rest."""
        counts = scores.new_zeros(self.graph.num_nodes)
        drawn = items.flatten()
        # Sums of ones are exact in any order, so this is reproducible on GPUs too.
        counts.scatter_add_(0, drawn, counts.new_ones(()).expand(len(drawn)))
        return counts.index_fill_(0, users, 1.0)
