"""CERP: compositional embeddings from two codebooks that are pruned together."""

from __future__ import annotations

import numpy as np

from cerp.assignment.bucket_rule import bucket_count
from cerp.assignment.code_rule import BOOKS, book_rows
from cerp.assignment.residual_kmeans import graph_codes
from cerp.data.ids import Int32Array
from cerp.methods.base import Context
from cerp.methods.pruned import Pruned
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.progress import progress


class Cerp(Pruned):
    """Two codebooks, pruned together (Liang et al., ICDM 2023)."""

    is_ordered = True

    def codes(self, context: Context) -> Int32Array | None:
        """Learned from the training graph, where the configuration wants that."""
        config = context.config
        if config.assignment == "hash":
            return None
        books, rows = _books(context)
        with progress("codes", 1, quiet=context.options.quiet) as bar:
            return graph_codes(
                context.splits.train,
                books=books,
                rows=rows,
                seed=config.seed,
                device=context.options.device,
                progress=bar,
            ).codes

    def fresh(self, context: Context) -> CompositionalEmbedding:
        """As many rows as the loosest budget needs: one pruning run serves all."""
        config, count = context.config, context.splits.num_entities
        if config.assignment == "learned":
            books, rows = _books(context)
            codes = context.codes
            if codes is None:  # to find out sizes, any codes will do
                codes = np.random.default_rng(0).integers(0, rows, (count, books), dtype=np.int32)
            return CompositionalEmbedding(
                count, config.dim, buckets=rows, codes=codes, generator=context.generator()
            )
        return CompositionalEmbedding(
            count,
            config.dim,
            buckets=config.buckets or bucket_count(max(context.limits), count, config.dim),
            hash_name=config.hashing,
            positions=context.positions,
            generator=context.generator(),
        )


def _books(context: Context) -> tuple[int, int]:
    """How many codebooks, and how many rows each."""
    config, count = context.config, context.splits.num_entities
    books = config.codebooks or BOOKS
    return books, config.buckets or book_rows(max(context.limits), count, config.dim, books)
