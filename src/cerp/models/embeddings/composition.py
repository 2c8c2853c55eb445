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
