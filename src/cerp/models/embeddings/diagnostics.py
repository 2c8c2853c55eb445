"""What is left of two codebooks after pruning, counted over all entities."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Diagnostics:
    """Counts over all entities k, with nz(·) the places of the non-zero entries of a row.

    The paper names its two measures without formulas ("the average of the
    actual embedding dimension", "the percentage of overlapping non-zero
    dimensions between the two meta-embeddings"); with those below,
    ``average_dimension + d · overlap`` is the mean number of values per
    entity, which agrees with the paper's printed pairs.
    """

    nnz: int
    """Non-zero values in both codebooks."""
    sparsity: float
    """``1 - nnz / (N·d)``"""
    average_dimension: float
    """Mean over entities of |nz(p_k)| + |nz(q_k)| - |nz(p_k) ∩ nz(q_k)|: the size of the union."""
    overlap: float
    """Mean over entities of ``|nz(p_k) ∩ nz(q_k)| / d``."""
    unreached_rows: int
    """Rows that no entity uses."""
    empty_rows: int
    """Rows without a non-zero value."""
    empty_entities: int
    """Entities both of whose rows are empty: their vector is zero."""
    collisions: int
    """Entities that cannot be told from an earlier one, because the row in which the two
    differ is empty in both. 0 before pruning: no two entities share both rows."""


def diagnose(
    nonzero: Tensor, row_pairs: Iterable[tuple[Tensor, Tensor]], sparsity: float
) -> Diagnostics:
    """Count over entities given a chunk at a time; memory is that of a chunk and of the rows.

    ``nonzero`` is (rows, d), boolean; each chunk has the two rows of some entities.
    """
    num_rows, dim = nonzero.shape
    row_size = nonzero.sum(dim=1)
    reached = torch.zeros(num_rows, dtype=torch.bool, device=nonzero.device)
    told_by = torch.zeros_like(reached)  # rows that alone make up the vector of some entity
    entities = values = shared = empty = alone = 0
    for row_p, row_q in row_pairs:
        size_p, size_q = row_size[row_p], row_size[row_q]
        entities += len(row_p)
        values += int((size_p + size_q).sum())
        shared += int(torch.count_nonzero(nonzero[row_p] & nonzero[row_q]))
        reached[row_p] = reached[row_q] = True
        empty += int(((size_p == 0) & (size_q == 0)).sum())
        only = torch.cat([row_p[(size_p > 0) & (size_q == 0)], row_q[(size_q > 0) & (size_p == 0)]])
        alone += len(only)
        told_by[only] = True
    return Diagnostics(
        nnz=int(row_size.sum()),
        sparsity=sparsity,
        average_dimension=(values - shared) / max(entities, 1),
        overlap=shared / max(entities * dim, 1),
        unreached_rows=int((~reached).sum()),
        empty_rows=int((row_size == 0).sum()),
        empty_entities=empty,
        collisions=alone - int(told_by.sum()) + max(empty - 1, 0),
    )
