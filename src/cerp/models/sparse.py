"""Sparse matrices and permutations times tables, by the fastest way torch has on each device."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor


class Csr(NamedTuple):
    """A matrix M in compressed rows.

    On CPUs a product adds up each row in the order of its entries, so it is the
    same bit by bit in every run. On GPUs it is cuSPARSE's, which was seen to
    differ in the last bits between runs and is four times as fast as a
    reproducible one.
    """

    offsets: Tensor
    """(rows + 1,): where the entries of each row begin, and the end of the last."""
    columns: Tensor
    """Of each entry."""
    values: Tensor | None = None
    """Of each entry; None: all are 1."""

    @classmethod
    def symmetric(cls, first: Tensor, second: Tensor, values: Tensor, size: int) -> Csr:
        """``M[first, second]`` and ``M[second, first]`` hold the values; repeated places add up."""
        rows = torch.cat([first, second])
        # Short integers are sorted in half the time, and read by products in half the time too.
        order = torch.sort(rows.int(), stable=True).indices
        # Counted without torch.bincount, for which a GPU would have to wait.
        counts = torch.zeros(size + 1, dtype=torch.int32, device=rows.device)
        counts.scatter_add_(0, rows + 1, counts.new_ones(()).expand(len(rows)))
        columns = torch.cat([second, first]).int()[order]
        offsets = counts.cumsum(0, dtype=torch.int32)
        return cls(offsets, columns, torch.cat([values, values])[order])

    def times(self, table: Tensor) -> Tensor:
        """``M · table``"""
        return self._vendor(table) @ table if table.is_cuda else self._bags(table)

    def times_plus(self, table: Tensor, addend: Tensor) -> Tensor:
        """``M · table + addend``"""
        if table.is_cuda:
            return torch.addmm(addend, self._vendor(table), table)
        return self._bags(table).add_(addend)

    def _bags(self, table: Tensor) -> Tensor:
        """Each row a weighted sum of rows of the table."""
        return F.embedding_bag(
            self.columns,
            table,
            self.offsets,
            mode="sum",
            per_sample_weights=None if self.values is None else self.values.to(table.dtype),
            include_last_offset=True,
        )

    def _vendor(self, table: Tensor) -> Tensor:
        """As a torch matrix, whose products are the vendor's."""
        values = table.new_ones(len(self.columns)) if self.values is None else self.values
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse (CSR|invariant)", UserWarning)
            return torch.sparse_csr_tensor(
                self.offsets,
                self.columns,
                values.to(table.dtype),
                (len(self.offsets) - 1, len(table)),
                check_invariants=False,
            )


def reordered(table: Tensor, order: Tensor) -> Tensor:
    """``table[order]`` for a permutation, differentiable in the table."""
    result: Tensor = _Reordered.apply(table, order)  # type: ignore[no-untyped-call]
    return result


class _Reordered(torch.autograd.Function):
    """Looks rows up in both directions, where autograd would add them up one by one."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, order: Tensor) -> Tensor:
        ctx.order = order
        return table.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return reordered(grad, inverse(ctx.order)), None


def inverse(order: Tensor) -> Tensor:
    """Where each index stands in a permutation."""
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
