"""Modules for use in any PyTorch model, where an ``nn.Embedding`` stood, and codes for them.

    table = nn.Embedding(...)                                          # of a trained model
    found = learn_codes(table.weight.detach().numpy(), books=4, rows=256)
    small = CompositionalEmbedding(num_embeddings, dim, codes=found.codes, buckets=256)

`learn_codes` writes every vector as a sum of rows, ``x_k ≈ Σ_j C_j[c_kj]``, one of each of m
books; the codes c say which entities share a row, and the module learns rows of its own.
"""

from __future__ import annotations

from cerp.assignment.codes import Codes
from cerp.assignment.one_table import table_codes, table_positions
from cerp.assignment.residual_kmeans import graph_codes, learn_codes
from cerp.export.lookups import save_embedding
from cerp.models.embeddings.bags import EmbeddingBag
from cerp.models.embeddings.collection import EmbeddingCollection, FieldReport
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.diagnostics import Diagnostics
from cerp.pruning.clocks import ScheduledClock
from cerp.pruning.pruner import Pruner

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
