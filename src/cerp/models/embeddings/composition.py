"""The table of all vectors ``Σ_j w[r_j(k)]``, and its gradient, as products of sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor

from cerp.models.sparse import Csr


class Composition(NamedTuple):
    """Which m rows every entity is made of, and which entities every row is part of."""

    rows_of_entities: Csr
    """(N, rows): m ones in the row of each entity."""
    entities_of_rows: Csr
    """Its transpose."""

    @classmethod
    def of(cls, rows: Sequence[Tensor], num_rows: int) -> Composition:
        """Of the first, the second, ... row of all entities."""
        chosen = torch.stack(list(rows), dim=1)
        starts = torch.arange(0, chosen.numel() + 1, len(rows), device=chosen.device)
        flat = chosen.flatten()
        members = torch.sort(flat, stable=True).indices // len(rows)
        offsets = F.pad(torch.bincount(flat, minlength=num_rows).cumsum(0), (1, 0))
        index = torch.int32 if chosen.numel() <= torch.iinfo(torch.int32).max else torch.int64
        return cls(Csr(starts.to(index), flat.to(index)), Csr(offsets.to(index), members.to(index)))

    @property
    def device(self) -> torch.device:
        """Where the matrices are."""
        return self.rows_of_entities.columns.device

    @property
    def num_rows(self) -> int:
        """How many rows there are to be chosen from."""
        return len(self.entities_of_rows.offsets) - 1

    def is_same(self, other: Composition) -> bool:
        """Whether entities have the same rows; a GPU is asked only of another object."""
        if self is other:
            return True
        ours, theirs = self.rows_of_entities, other.rows_of_entities
        return (
            self.device == other.device
            and self.num_rows == other.num_rows
            and torch.equal(ours.offsets, theirs.offsets)
            and torch.equal(ours.columns, theirs.columns)
        )

    def columns(self, first: int, count: int, dtype: torch.dtype) -> Tensor:
        """Some columns of the matrix of entities by rows, as ones among zeros."""
        offsets, members = self.entities_of_rows.offsets, self.entities_of_rows.columns
        entities = len(self.rows_of_entities.offsets) - 1
        found = torch.zeros(entities, count, dtype=dtype, device=self.device)
        counts = offsets[first : first + count + 1].diff()
        places = torch.repeat_interleave(torch.arange(count, device=self.device), counts)
        own = members[int(offsets[first]) : int(offsets[first + count])]
        found[own.long(), places] = 1
        return found

    def rows_of(self, entities: Tensor) -> Tensor:
        """The m rows of some entities, (n,) to (n, m)."""
        num_entities = len(self.rows_of_entities.offsets) - 1
        return self.rows_of_entities.columns.view(num_entities, -1)[entities]

    def vectors(self, weight: Tensor, entities: Tensor) -> Tensor:
        """``out[k] = Σ_j w[r_j(k)]`` for some k alone, differentiable in w."""
        first, *others = (F.embedding(rows, weight) for rows in self.rows_of(entities).unbind(1))
        for part in others:
            first = first + part
        return first

    def table(self, weight: Tensor) -> Tensor:
        """``out[k] = Σ_j w[r_j(k)]`` for all k, differentiable in w."""
        result: Tensor = _SumOfRows.apply(weight, self)  # type: ignore[no-untyped-call]
        return result


class _SumOfRows(torch.autograd.Function):
    """Forward by the matrix, backward by its transpose: no scattered additions."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, composition: Composition) -> Tensor:
        ctx.composition = composition
        return composition.rows_of_entities.times(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.composition.entities_of_rows.times(grad.contiguous()), None
