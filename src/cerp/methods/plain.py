"""Methods without a search: an embedding made to fit, and trained."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from cerp.methods.base import Context, Method
from cerp.methods.dhe import DeepHashEmbedding
from cerp.methods.hashed import HashedEmbedding
from cerp.methods.qr import QuotientRemainderEmbedding
from cerp.methods.ud import UniformEmbedding
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.training.search_result import Found

GIVEN_BY_THE_RUN = {"generator", "padding_idx", "positions"}


class Full(Method):
    """No compression: the table that budgets are shares of."""

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """All N x d values."""
        return FullEmbedding(
            context.splits.num_entities, context.config.dim, generator=context.generator()
        )


class Fitted(Method):
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


class Ud(Fitted):
    """A narrow table."""

    embedding_class = UniformEmbedding


class Qr(Fitted):
    """A row for the quotient and one for the remainder; ``operation``: mult, add or concat."""

    embedding_class = QuotientRemainderEmbedding
    is_ordered = True


class Dhe(Fitted):
    """A network on hash codes; ``accounting``: paper or honest."""

    embedding_class = DeepHashEmbedding
    # Each process would normalise by the entities of its own part of the batch.
    is_parallel = False


class Hash(Fitted):
    """A single table whose rows are shared at random."""

    embedding_class = HashedEmbedding
