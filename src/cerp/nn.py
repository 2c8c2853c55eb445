"""Modules for use in any PyTorch model, where an ``nn.Embedding`` stood, and codes for them.

    table = nn.Embedding(...)                                          # of a trained model
    found = learn_codes(table.weight.detach().numpy(), books=4, rows=256)
    small = CompositionalEmbedding(num_embeddings, dim, codes=found.codes, buckets=256)

`learn_codes` writes every vector as a sum of rows, ``x_k ≈ Σ_j C_j[c_kj]``, one of each of m
books; the codes c say which entities share a row, and the module learns rows of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cerp.artifact import ValuesCodec
from cerp.assignment.codes import Codes
from cerp.assignment.one_table import table_codes, table_positions
from cerp.assignment.residual_kmeans import graph_codes, learn_codes
from cerp.export.lookups import save_embedding
from cerp.models.embeddings import collection, compositional
from cerp.models.embeddings.bags import EmbeddingBag
from cerp.models.embeddings.collection import FieldReport
from cerp.models.embeddings.diagnostics import Diagnostics
from cerp.pruning.clocks import ScheduledClock
from cerp.pruning.pruner import Pruner


class CompositionalEmbedding(compositional.CompositionalEmbedding):
    """``e_k = Σ_j Ŵ_j[r_j(k)]``: one row from each of m codebooks, usable as an ``nn.Embedding``.

    `cerp.models.embeddings.compositional.CompositionalEmbedding` says what its arguments are.
    """

    def save(
        self, path: str | os.PathLike[str], *, ids: Any = None, values: ValuesCodec = "int8"
    ) -> int:
        """Write the vectors to ``.cerp``, ``.npy`` or ``.onnx``; see `save_embedding`."""
        return save_embedding(self, path, ids=ids, values=values)


class EmbeddingCollection(collection.EmbeddingCollection):
    """Vectors for several fields, ``e = E_f[k]``, that together stay within one budget.

    `cerp.models.embeddings.collection.EmbeddingCollection` says what its arguments are.
    """

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        ids: Mapping[str, Any] | None = None,
        values: ValuesCodec = "int8",
    ) -> int:
        """Write all fields to one ``.cerp`` file, for ``cerp.load(path)["user"].vectors(ids)``.

        ``ids`` says by field what its ids 0..n-1 are called; see `save_embedding`.
        """
        return save_embedding(self, path, ids=ids, values=values)


__all__ = [
    "Codes",
    "CompositionalEmbedding",
    "Diagnostics",
    "EmbeddingBag",
    "EmbeddingCollection",
    "FieldReport",
    "Pruner",
    "ScheduledClock",
    "graph_codes",
    "learn_codes",
    "save_embedding",
    "table_codes",
    "table_positions",
]
