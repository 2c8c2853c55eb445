"""LEGCF as a method: clusters of the training graph to begin with, weights chosen anew later on."""

from __future__ import annotations

import numpy as np
import torch

from cerp.assignment.communities import as_many_communities
from cerp.data.ids import Int32Array
from cerp.errors import BudgetError
from cerp.methods.base import Context, Method, Search
from cerp.methods.between_epochs import BetweenEpochs
from cerp.methods.legcf.embedding import CHOICES, LAYERS, OWN_WEIGHT, ExpandedEmbedding
from cerp.models.embeddings.base import Embedding
from cerp.models.recommender import Recommender
from cerp.training.loop import StageHooks
from cerp.training.search_result import Found

FIXED_SHARE = 0.5
"""Of the epochs, in which weights stay as they were drawn."""


class Legcf(Method):
    """Lightweight embeddings for graph collaborative filtering (Liang et al., SIGIR 2024).

    See `ExpandedEmbedding`: it propagates by itself, over the graph of LightGCN and more, so that
    its scores are plain dot products. The number of vectors is ``c = ⌊(t - τN) / d⌋``, with one
    choice ``⌊t / d⌋``.

    Where we differ: clusters are communities of the graph (`cerp.assignment.communities`) instead
    of METIS's parts. The authors choose weights anew from the epoch on in which validation stops
    rising; here that is the second half of the epochs. There are no biases.
    """

    only_backbone = "mf"

    def __init__(
        self, choices: int = CHOICES, own_weight: float = OWN_WEIGHT, layers: int = LAYERS
    ) -> None:
        self._choices, self._own_weight, self._layers = choices, own_weight, layers

    def search(self, context: Context) -> Search:
        """Clusters for each limit."""
        found = {}
        for limit in dict.fromkeys(context.limits):
            rows = self._rows(context, limit)
            label = as_many_communities(context.splits.train, rows, seed=context.config.seed)
            facts = {"clusters": int(label.max()) + 1, "seconds": 0.0}
            found[limit] = Found({"clusters": torch.from_numpy(label)}, facts)
        return Search(found, [])

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """As many vectors as the limit allows."""
        clusters = found.tensors["clusters"].cpu().numpy()
        return self._made(context, clusters, self._rows(context, limit))

    def placeholder(self, context: Context, limit: int) -> Embedding:
        """The same with clusters that mean nothing."""
        rows = self._rows(context, limit)
        return self._made(context, np.zeros(context.splits.num_entities, dtype=np.int32), rows)

    def hooks(self, context: Context, model: Recommender) -> StageHooks:
        """Weights are chosen anew between the later epochs."""
        embedding = model.embedding
        assert isinstance(embedding, ExpandedEmbedding)
        first = int(FIXED_SHARE * context.config.train.epochs)
        return BetweenEpochs(
            lambda epoch: embedding.refresh(), lambda epoch: epoch >= max(first, 1), forgets=False
        )

    def _made(self, context: Context, clusters: Int32Array, rows: int) -> Embedding:
        return ExpandedEmbedding(
            context.splits.train,
            context.config.dim,
            clusters=clusters,
            rows=rows,
            choices=self._choices,
            own_weight=self._own_weight,
            layers=self._layers,
            generator=context.generator(),
        )

    def _rows(self, context: Context, limit: int) -> int:
        count, dim = context.splits.num_entities, context.config.dim
        weights = self._choices * count if self._choices > 1 else 0
        rows = min((limit - weights) // dim, count)
        if rows < max(self._choices, 1):
            raise BudgetError(
                f"a budget of {limit:,} values is too small for LEGCF with choices="
                f"{self._choices}: {weights:,} weights and {self._choices} vectors of {dim:,} make "
                f"{weights + self._choices * dim:,}, the smallest possible budget; choices=1 needs "
                "no weights"
            )
        return rows
