"""No compression: the table that budgets are shares of."""

from __future__ import annotations

from cerp.methods.base import Context, Method
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.training.search_result import Found


class Full(Method):
    """No compression: the table that budgets are shares of."""

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """All N x d values."""
        return FullEmbedding(
            context.splits.num_entities, context.config.dim, generator=context.generator()
        )
