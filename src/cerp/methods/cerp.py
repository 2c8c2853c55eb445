"""CERP: compositional embeddings from codebooks that are pruned together."""

from __future__ import annotations

import numpy as np
import torch

from cerp.assignment.bucket_rule import bucket_count
from cerp.assignment.code_rule import BOOKS, book_rows, books_and_rows_of_bytes
from cerp.assignment.codes import Codes
from cerp.assignment.residual_kmeans import graph_codes, learn_codes
from cerp.methods.base import Context
from cerp.methods.pruned import Pruned
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.progress import progress


class Cerp(Pruned):
    """Codebooks pruned together (Liang et al., ICDM 2023): two by a hash, or more by codes."""

    learns_rows = True
    is_ordered = True

    def codes(self, context: Context) -> Codes | None:
        """Learned from a teacher's vectors or from the training graph, where that is wanted."""
        config = context.config
        if config.assignment == "hash":
            return None
        books, rows = _books(context)
        with progress("codes", 1, quiet=context.options.quiet) as bar:
            if context.teacher is not None:
                return learn_codes(
                    context.teacher,
                    np.sqrt(np.maximum(context.degrees, 1)),
                    books=books,
                    rows=rows,
                    seed=config.seed,
                    device=context.options.device,
                    progress=bar,
                )
            return graph_codes(
                context.splits.train,
                books=books,
                rows=rows,
                seed=config.seed,
                device=context.options.device,
                progress=bar,
            )

    def fresh(self, context: Context) -> CompositionalEmbedding:
        """As many rows as the loosest budget needs: one pruning run serves all."""
        config, count = context.config, context.splits.num_entities
        if config.assignment == "learned":
            books, rows = _books(context)
            codes = context.codes
            if codes is None:  # to find out sizes, any codes will do
                codes = np.random.default_rng(0).integers(0, rows, (count, books), dtype=np.int32)
            made = CompositionalEmbedding(
                count, config.dim, buckets=rows, codes=codes, generator=context.generator()
            )
            if context.rows is not None:
                made.weight.data.copy_(torch.from_numpy(context.rows).flatten(0, 1))
            return made
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
    config, count, most = context.config, context.splits.num_entities, max(context.limits)
    if context.limits_bytes and config.buckets is None:
        return books_and_rows_of_bytes(most, count, config.dim, config.codebooks)
    books = config.codebooks or BOOKS
    return books, config.buckets or book_rows(most, count, config.dim, books)
