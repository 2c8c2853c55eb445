"""The rows of a large matrix that a batch names, times a table, and their transpose times another.

Both products wait for memory, so that it counts how often the rows are read. The vendor's
products take a copy of them, or all rows of a side, whichever is less. Nothing waits for the
device, and no shape depends on values. Kernels that read each row once, where it lies, are in
`cerp.models.backbones.kernel_scores`.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor

from cerp.models.backbones.half_propagation import LARGEST, SMALLEST_BOUND

GATHERED_SHARE = 0.5
"""Where a batch names less than this share of the rows of a side, a copy of those is multiplied.
Copying takes two passes over them, and both products one each; without a copy both products
take all rows of the side."""


class ChosenRows(Protocol):
    """The rows that a batch names on one side, with repetitions."""

    def times(self, table: Tensor) -> Tensor:
        """``M[rows] · table``"""

    def transposed_times(self, grad: Tensor) -> Tensor:
        """``M[rows]ᵀ · grad``"""


class RowsOfSides:
    """Users and items apart, each by a copy of their rows or by all rows of their side."""

    def __init__(self, matrix: Tensor, num_users: int, users: Tensor, items: Tensor) -> None:
        parts = torch.tensor_split(matrix, [num_users])
        named = (users, items.flatten())
        self.sides = [_side(part, rows) for part, rows in zip(parts, named, strict=True)]
        self.sizes = [len(rows) for rows in named]

    def times(self, table: Tensor) -> Tensor:
        """``M[rows] · table``"""
        return torch.cat([side.times(table) for side in self.sides])

    def transposed_times(self, grad: Tensor) -> Tensor:
        """``M[rows]ᵀ · grad``"""
        users, items = (
            side.transposed_times(part)
            for side, part in zip(self.sides, torch.split(grad, self.sizes), strict=True)
        )
        return users.add_(items)


def is_gathered(batch_rows: int, all_rows: int) -> bool:
    """Whether the rows of a batch are copied, given how many rows their side has."""
    return batch_rows < GATHERED_SHARE * all_rows


def _side(part: Tensor, rows: Tensor) -> ChosenRows:
    return (_Gathered if is_gathered(len(rows), len(part)) else _Whole)(part, rows)


class _Gathered:
    """The rows of a batch, copied."""

    def __init__(self, part: Tensor, rows: Tensor) -> None:
        self.part = part.index_select(0, rows)

    def times(self, table: Tensor) -> Tensor:
        return product(self.part, table)

    def transposed_times(self, grad: Tensor) -> Tensor:
        return scaled_product(self.part.T, grad)


class _Whole:
    """All rows of a side, of which those of the batch are looked up."""

    def __init__(self, part: Tensor, rows: Tensor) -> None:
        self.part, self.rows = part, rows

    def times(self, table: Tensor) -> Tensor:
        return F.embedding(self.rows, product(self.part, table))

    def transposed_times(self, grad: Tensor) -> Tensor:
        total = grad.new_zeros(len(self.part), grad.shape[1]).index_add_(0, self.rows, grad)
        return scaled_product(self.part.T, total)


def stored_as(table: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A table times what brings its largest entry to the end of a half's range, and that factor.

    Nothing waits for the device. Other types than half precision, and empty tables,
    are not scaled.
    """
    if dtype != torch.float16 or not table.numel():
        return table.to(dtype), table.new_ones(())
    largest = torch.linalg.vector_norm(table, torch.inf)  # in one pass
    scale = LARGEST / largest.clamp_(min=SMALLEST_BOUND)
    return torch.mul(table, scale, out=torch.empty_like(table, dtype=dtype)), scale


def scaled_product(matrix: Tensor, table: Tensor) -> Tensor:
    """`product` of a table of any range."""
    stored, scale = stored_as(table, matrix.dtype)
    return product(matrix, stored).div_(scale)


def product(matrix: Tensor, table: Tensor) -> Tensor:
    """``matrix · table`` with sums and result in float32; wider numbers stay what they are."""
    if matrix.dtype != torch.float16:
        return matrix @ table
    with torch.autocast(matrix.device.type, enabled=False):  # which would copy M to cast it
        if matrix.is_cuda:
            return torch.mm(matrix, table, out_dtype=torch.float32)
        return matrix.float() @ table.float()
