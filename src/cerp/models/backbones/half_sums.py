"""LightGCN's tables in half precision straight from codebooks, on CPUs.

Where every vector is a sum of rows, ``E = S Ŵ``, the table that propagation starts from and the
gradient that it ends with are products of sparse matrices with small ones,

    c D^-½ E = (D^-½ S) (c Ŵ)    and    ∂L/∂Ŵ = (Sᵀ D^½) T / c,

so no table of E, nor of its gradient, is ever written in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from cerp.models.backbones.half_propagation import (
    LARGEST,
    Walk,
    columns_at_once,
    inverse_power,
    largest_of,
)
from cerp.models.embeddings.composition import Composition
from cerp.models.sparse import Csr


class HalfSums:
    """The source of vectors that are sums of rows of one matrix Ŵ (see `half_propagation.Source`).

    Sums have m terms, so that no entry of E is larger than m times the largest of Ŵ.
    """

    def __init__(self, composition: Composition, walk: Walk) -> None:
        self.composition = composition
        rows, entities = composition.rows_of_entities, composition.entities_of_rows
        self.terms = len(rows.columns) // len(walk.root)
        inverse_roots = walk.root.reciprocal().half().expand(-1, self.terms)
        self._rows = rows._replace(values=inverse_roots.flatten())
        roots = walk.root.flatten()[entities.columns.long()]
        # No entry of T is larger than LARGEST / d_max, so no sum is larger than LARGEST times this.
        largest_sum = float(Csr(entities.offsets, entities.columns).times(walk.root).max())
        bound = max(largest_sum / walk.largest_degree, float(roots.max()) / LARGEST)
        self._root_scale = inverse_power(bound)
        self._entities = entities._replace(values=(roots * self._root_scale).half())

    def bound(self, tensors: Sequence[Tensor]) -> float:
        """What no entry of E is larger than."""
        return self.terms * largest_of(tensors)

    def starts(self, tensors: Sequence[Tensor], walk: Walk, scale: float) -> Iterator[Tensor]:
        """``scale · D^-½ E`` in float16, in tables of some columns each."""
        (weight,) = tensors
        columns = columns_at_once(len(walk.root), weight.shape[1])
        for part in torch.split((weight * scale).half(), columns, dim=1):
            yield self._rows.times(part.contiguous())

    def gradients(self, tables: Iterator[Tensor], walk: Walk, scale: float) -> tuple[Tensor, ...]:
        """That of Ŵ."""
        parts = [self._entities.times(table).float() for table in tables]
        return (torch.cat(parts, dim=1).div_(scale * self._root_scale),)
