"""Methods without a search: an embedding made as large as the limit allows, and trained."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from cerp.methods.base import Context, Method
from cerp.models.embeddings.base import Embedding
from cerp.training.search_result import Found

GIVEN_BY_THE_RUN = {"generator", "padding_idx", "positions"}


class MadeToFit(Method):
    """An embedding class that makes itself fit by ``for_limit``, whose options are the method's."""

    embedding_class: ClassVar[Any]

    def __init__(self, **options: Any) -> None:
        self._options = options

    @classmethod
    def option_names(cls) -> set[str]:
        """What ``for_limit`` takes beside sizes and what the run gives."""
        parameters = inspect.signature(cls.embedding_class.for_limit).parameters.values()
        keywords = {entry.name for entry in parameters if entry.kind is entry.KEYWORD_ONLY}
        return keywords - GIVEN_BY_THE_RUN

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """As large as the limit allows."""
        order = {"positions": context.positions} if self.is_ordered else {}
        made: Embedding = self.embedding_class.for_limit(
            context.splits.num_entities,
            context.config.dim,
            limit,
            generator=context.generator(),
            **order,
            **self._options,
        )
        return made
