"""CCE as a method: clustering between epochs, until three quarters of them are over."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from cerp.errors import ConfigError
from cerp.methods.base import Context, Method
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
        assert isinstance(model.embedding, ClusteredEmbedding)
        last = int(LAST_SHARE * context.config.train.epochs)
        return _Clustering(model.embedding, context.config.seed, self._every, last)


class _Clustering(StageHooks):
    """Rows are clustered after the judgement of an epoch, before the first step of the next."""

    def __init__(self, embedding: ClusteredEmbedding, seed: int, every: int, last: int) -> None:
        self._embedding, self._seed, self._every, self._last = embedding, seed, every, last
        self._waiting: int | None = None

    def replaced_weights(self, step: int) -> bool:
        """Where an epoch has just ended that is followed by clustering."""
        if self._waiting is None:
            return False
        # Apart from the seeds of other runs, and of the stages of this one.
        self._embedding.cluster(1000 * (self._seed + 1) + self._waiting)
        self._waiting = None
        return True

    def after_epoch(self, epoch: int) -> dict[str, float]:
        """Note that rows are to be clustered."""
        done = epoch + 1
        self._waiting = done if done % self._every == 0 and done <= self._last else None
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Whether a clustering is due."""
        return {}, {"waiting": self._waiting}

    def load_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self._waiting = facts["waiting"]
