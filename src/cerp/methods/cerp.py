"""CERP: compositional embeddings from two codebooks that are pruned together."""

from __future__ import annotations

from cerp.assignment.bucket_rule import bucket_count
from cerp.methods.base import Context
from cerp.methods.pruned import Pruned
from cerp.models.embeddings.compositional import CompositionalEmbedding


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
