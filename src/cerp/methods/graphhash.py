"""GraphHash: users and items of one community of the training graph share a row."""

from __future__ import annotations

import time

import numpy as np
import torch

from cerp.assignment.communities import as_many_communities, modularity
from cerp.errors import BudgetError
from cerp.methods.base import Context, Method, Search
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.progress import progress
from cerp.training.search_result import Found


class GraphHash(Method):
    """``e_k = W[c(k)]`` with the community c(k) of user or item k (Wu et al., WWW 2025).

    One table of as many rows as fit, ``⌊t / d⌋``. Communities are those of Louvain's method on
    the training graph, at the resolution that makes as many of them
    (`cerp.assignment.communities`). Rows count; the community of each entity is free in the
    paper's count and takes ``⌈log₂ rows⌉`` bits in the file.
    """

    def search(self, context: Context) -> Search:
        """Communities for each limit."""
        train, found = context.splits.train, {}
        with progress("communities", len(context.limits), quiet=context.options.quiet) as bar:
            for limit in dict.fromkeys(context.limits):
                started = time.monotonic()
                label = as_many_communities(train, _rows(context, limit), seed=context.config.seed)
                facts = {
                    "communities": int(label.max()) + 1,
                    "modularity": modularity(train, label),
                    "seconds": round(time.monotonic() - started, 2),
                }
                found[limit] = Found({"communities": torch.from_numpy(label)}, facts)
                bar.advance(1)
        return Search(found, [])

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """A row for each community."""
        return _table(context, found.tensors["communities"].cpu().numpy(), _rows(context, limit))

    def placeholder(self, context: Context, limit: int) -> Embedding:
        """The same with communities that mean nothing: their bytes depend on their number alone."""
        rows = _rows(context, limit)
        label = np.random.default_rng(0).integers(0, rows, context.splits.num_entities)
        return _table(context, label, rows)


def _table(context: Context, label: np.ndarray, rows: int) -> Embedding:
    return CompositionalEmbedding(
        context.splits.num_entities,
        context.config.dim,
        buckets=rows,
        codes=label.astype(np.int32)[:, None],
        generator=context.generator(),
    )


def _rows(context: Context, limit: int) -> int:
    rows = min(limit // context.config.dim, context.splits.num_entities)
    if rows < 1:
        raise BudgetError(
            f"a budget of {limit:,} values is too small for GraphHash: one row, the smallest "
            f"possible budget, has {context.config.dim:,}"
        )
    return rows
