"""Methods without a search: an embedding made to fit, and trained."""

from __future__ import annotations

from typing import Any

from cerp.embeddings.base import Embedding
from cerp.embeddings.full import FullEmbedding
from cerp.methods.base import Context, Found, Method


class Full(Method):
    """No compression: the table that budgets are shares of."""

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """All N x d values."""
        return FullEmbedding(
            context.splits.num_entities, context.config.dim, generator=context.generator()
        )


class Fitted(Method):
    """An embedding class that makes itself fit by ``for_limit``."""

    def __init__(self, embedding_class: Any, *, is_ordered: bool = False) -> None:
        self._class = embedding_class
        self.is_ordered = is_ordered

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """As large as the limit allows; the configuration's ``method_options`` are the class's."""
        order = {"positions": context.positions} if self.is_ordered else {}
        made: Embedding = self._class.for_limit(
            context.splits.num_entities,
            context.config.dim,
            limit,
            generator=context.generator(),
            **order,
            **context.config.method_options,
        )
        return made
