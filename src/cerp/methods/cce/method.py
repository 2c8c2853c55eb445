"""CCE as a method: clustering between epochs, until three quarters of them are over."""

from __future__ import annotations

from cerp.errors import ConfigError
from cerp.methods.base import Context, Method
from cerp.methods.between_epochs import BetweenEpochs
from cerp.methods.cce.embedding import CHUNKS, ClusteredEmbedding
from cerp.models.embeddings.base import Embedding
from cerp.models.recommender import Recommender
from cerp.training.loop import StageHooks
from cerp.training.search_result import Found

LAST_SHARE = 0.75
"""Of the epochs, after which rows stay as they are."""


class Cce(Method):
    """Clustered compositional embeddings (Tsang and Ahle, NeurIPS 2023).

    See `ClusteredEmbedding`. Rows are clustered again before every ``every``-th epoch but the
    first, through three quarters of the epochs; Adam's moments are forgotten each time.
    """

    def __init__(self, chunks: int = CHUNKS, every: int = 1) -> None:
        if chunks < 1 or every < 1:
            raise ConfigError(f"CCE needs chunks >= 1 and every >= 1, got {chunks} and {every}")
        self._chunks, self._every = chunks, every

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """As many rows as the limit allows."""
        return ClusteredEmbedding.for_limit(
            context.splits.num_entities,
            context.config.dim,
            limit,
            chunks=self._chunks,
            generator=context.generator(),
        )

    def hooks(self, context: Context, model: Recommender) -> StageHooks:
        """Clustering between epochs."""
        embedding, seed = model.embedding, context.config.seed
        assert isinstance(embedding, ClusteredEmbedding)
        last = int(LAST_SHARE * context.config.train.epochs)
        return BetweenEpochs(
            # Apart from the seeds of other runs, and of the stages of this one.
            lambda epoch: embedding.cluster(1000 * (seed + 1) + epoch),
            lambda epoch: epoch % self._every == 0 and epoch <= last,
            forgets=True,
        )
