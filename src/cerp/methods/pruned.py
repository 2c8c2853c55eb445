"""Methods that prune: which entries to keep is searched, then what is left is trained."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Literal, get_args

import torch

from cerp.artifact import ComposedEmbedding
from cerp.assignment.bucket_rule import bucket_count
from cerp.choices import Rewind
from cerp.config import PruneConfig
from cerp.errors import ConfigError
from cerp.methods.base import Context, Method, Search
from cerp.methods.pep import PrunableTable
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.prunable import PrunableEmbedding
from cerp.pruning.functional import top_mask
from cerp.training.search_result import Found
from cerp.training.stages import prune

PrunedWeights = Literal["table", "codebooks"]


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
        found, history = prune(
            context.recommender(self.fresh(context)),
            context.splits,
            self.pruning(context),
            list(context.limits),
            seed=context.config.seed,
            options=context.options,
            loss=context.config.loss,
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

    def sketch(self, context: Context, limit: int) -> ComposedEmbedding:
        """Random survivors: no pattern takes more bytes to store."""
        embedding = self.fresh(context)
        noise = torch.rand(embedding.weight.shape, generator=context.generator())
        embedding.restrict(top_mask(noise, limit))
        return embedding.composed()


class Cerp(Pruned):
    """Two codebooks, pruned together (Liang et al., ICDM 2023)."""

    is_ordered = True

    def fresh(self, context: Context) -> CompositionalEmbedding:
        """As many buckets as the loosest budget needs: one pruning run serves all."""
        config, count = context.config, context.splits.num_entities
        return CompositionalEmbedding(
            count,
            config.dim,
            buckets=config.buckets or bucket_count(max(context.limits), count, config.dim),
            hash_name=config.hashing,
            positions=context.positions,
            generator=context.generator(),
        )


class Pep(Pruned):
    """A full table with learned thresholds, retrained from its first values (ICLR 2021)."""

    def fresh(self, context: Context) -> PrunableTable:
        """The full table."""
        return PrunableTable(
            context.splits.num_entities, context.config.dim, generator=context.generator()
        )

    def pruning(self, context: Context) -> PruneConfig:
        """On the task's loss alone."""
        return replace(context.config.prune, gamma=0.0)

    def rewind(self, context: Context) -> Rewind:
        """Always the first values."""
        return "initial"


class Magnitude(Pruned):
    """The largest entries after plain training, which goes on from there.

    ``of`` says of what: a full ``table``, or CERP's ``codebooks``, which shows
    what its thresholds and its penalty are worth.
    """

    def __init__(self, of: PrunedWeights = "table") -> None:
        if of not in get_args(PrunedWeights):
            raise ConfigError(f"magnitude pruning of {of!r}: choose table or codebooks")
        self._dense: Pruned = Pep() if of == "table" else Cerp()
        self.is_ordered = self._dense.is_ordered

    def fresh(self, context: Context) -> PrunableEmbedding:
        """The full table, or both codebooks."""
        return self._dense.fresh(context)

    def pruning(self, context: Context) -> PruneConfig:
        """No thresholds and no penalty."""
        return replace(context.config.prune, mode="magnitude")
