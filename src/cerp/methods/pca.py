"""PCA of the trained full table: its leading directions, and nothing else of it."""

from __future__ import annotations

import numpy as np
import torch

from cerp.errors import BudgetError
from cerp.methods.base import Context, Method
from cerp.methods.full import Full
from cerp.methods.lowrank import LowRankEmbedding
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.training.search_result import Found


class Pca(Method):
    """``E ≈ (E V) Vᵀ`` with V the w leading right singular vectors of the trained table E.

    Nothing is centred: scores are products of vectors as they are. Where they are dot products,
    the coordinates E V alone give the same ones, and N · w values are stored; with the MLP, V is
    stored too. No better table of this rank is there in squared error (Eckart and Young, 1936);
    UD and the low-rank method train one instead.
    """

    def source(self, context: Context) -> Embedding:
        """The full table."""
        return Full().embedding(context, max(context.limits), Found({}, {}))

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """As many directions as the limit has room for."""
        count, dim = context.splits.num_entities, context.config.dim
        if context.backbone(dim).head != "dot":
            return LowRankEmbedding.for_limit(count, dim, limit, generator=context.generator())
        width = min(limit // count, dim)
        if width < 1:
            raise BudgetError(
                f"a budget of {limit:,} values is too small for PCA: with one coordinate for each "
                f"entity the smallest possible budget is {count:,}"
            )
        return FullEmbedding(count, width, generator=context.generator())

    @torch.no_grad()
    def compress(self, context: Context, source: Embedding, kept: Embedding) -> None:
        """The coordinates of the trained table, and its directions where they are needed."""
        table = source.table().double()
        _, vectors = np.linalg.eigh((table.T @ table).cpu().numpy())
        leading = torch.from_numpy(vectors[:, ::-1].copy()).to(table)
        if isinstance(kept, LowRankEmbedding):
            leading = leading[:, : len(kept.matrix)]
            kept.matrix.copy_(leading.T)
            kept.rows.copy_(table @ leading)
        else:
            assert isinstance(kept, FullEmbedding)
            kept.weight.copy_(table @ leading[:, : kept.embedding_dim])
