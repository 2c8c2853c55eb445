"""What methods that prune share: a search for the entries to keep, then training of those."""

from __future__ import annotations

from abc import abstractmethod

import torch

from cerp.choices import Rewind
from cerp.config import PruneConfig
from cerp.methods.base import Context, Method, Search
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.prunable import PrunableEmbedding
from cerp.models.recommender import Recommender
from cerp.pruning.functional import top_mask
from cerp.training.search_result import Found
from cerp.training.stages import prune


class Pruned(Method):
    """One pruning run gives the entries of every budget; the survivors are trained again."""

    search_stage = "prune"

    @abstractmethod
    def fresh(self, context: Context) -> PrunableEmbedding:
        """The dense embedding that pruning starts from."""

    def pruning(self, context: Context) -> PruneConfig:
        """How to prune."""
        return context.config.prune

    def rewind(self, context: Context) -> Rewind:
        """Which values the survivors start training from."""
        return context.config.rewind

    def search(self, context: Context) -> Search:
        """Masks and pruned values for each limit."""
        return self.pruned(context, context.recommender(self.fresh(context)))

    def pruned(self, context: Context, model: Recommender) -> Search:
        """The same of a model that is there already; it is used up."""
        found, history = prune(
            model,
            context.splits,
            self.pruning(context),
            list(context.limits),
            seed=context.config.seed,
            options=context.options,
            loss=context.config.loss,
            teacher=context.teacher,
            checkpointing=context.checkpointing(self.search_stage),
        )
        return Search(found, history)

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """The survivors, at their first or at their pruned values."""
        embedding = self.fresh(context)
        first = embedding.weight.detach().clone()
        embedding.restrict(found.tensors["mask"].cpu())
        is_rewound = self.rewind(context) == "initial"
        embedding.rewind(first if is_rewound else found.tensors["weight"])
        return embedding

    def placeholder(self, context: Context, limit: int) -> Embedding:
        """Random survivors: no pattern takes more bytes to store."""
        embedding = self.fresh(context)
        noise = torch.rand(embedding.weight.shape, generator=context.generator())
        embedding.restrict(top_mask(noise, limit))
        return embedding
