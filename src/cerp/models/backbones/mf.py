"""Matrix factorisation."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from cerp.models.backbones.base import Backbone, BatchOutput, DotScorer, gathered
from cerp.models.backbones.summed_batch import summed_batch
from cerp.models.embeddings.base import Embedding


class MatrixFactorization(Backbone):
    """``score(u, i) = ⟨e_u, e_i⟩``; no weights of its own."""

    capturable = True
    head = "dot"

    def forward(self, embedding: Embedding, users: Tensor, items: Tensor) -> BatchOutput:
        """Scores of a training batch: user codes (B,) against item codes (B, m)."""
        batch = summed_batch(embedding, users, items, self.num_users)
        if batch is not None:
            return batch.output(batch.scores(items.shape[1]))
        # One lookup for both sides: the backward of each fills a gradient of the table's size.
        vectors = embedding(self.entities(users, items))
        user_vectors, item_vectors = torch.split(vectors, [users.numel(), items.numel()])
        item_vectors = item_vectors.view(*items.shape, -1)
        scores = torch.einsum("bd,bmd->bm", user_vectors, item_vectors)
        return BatchOutput(scores, partial(gathered, users, vectors))

    @torch.no_grad()
    def scorer(self, embedding: Embedding) -> DotScorer:
        """Item vectors once; user vectors as users are scored."""
        return DotScorer(embedding, self.item_vectors(embedding))
