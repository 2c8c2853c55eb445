"""Sums of rows of one matrix, without kernels of our own: what lookups in codebooks come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from scipy.sparse import _sparsetools
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.models.sparse import Csr
from cerp.pruning.functional import pruned_and_slope


def sums_of_rows(weight: Tensor, rows: Tensor) -> Tensor:
    """``Σ_j W[r_j]`` for (..., m) row numbers, of the shape (..., d).

    One pass forward and one backward, both in the order of the ids, so that the results are those
    of m lookups and their sum to the bit. 8,192 ids in 8 books of 256 rows of 64 numbers take
    .9 ms, m lookups 9 ms.
    """
    return _checked(_SumsOfRows, rows, weight)


def sums_of_pruned_rows(
    weight: Tensor, threshold: Tensor, shift: Tensor, ceiling: Tensor, rows: Tensor
) -> Tensor:
    """``Σ_j Ŵ[r_j]`` with ``Ŵ = sign(W)·relu(|W| − c·σ(S + shift))``, to the bit as in two steps.

    Gradients of Ŵ become those of W where they lie: codebooks that fit the cache but once are
    then read and written less often.
    """
    return _checked(_SumsOfPrunedRows, rows, weight, threshold, shift, ceiling)


def weighted_sums_of_rows(
    weight: Tensor, rows: Tensor, shares: Tensor, places: Tensor, count: int
) -> Tensor:
    """``out[p] = Σ_{k: places_k = p} shares_k · Σ_j W[r_kj]`` for (n, m) row numbers, (count, d).

    What has the vectors of n entities in it, without any of them: one pass forward, one backward.
    """
    return _checked(_WeightedSums, rows, weight, shares, places, count)


def is_fast(weight: Tensor) -> bool:
    """Whether sums are better made here: numbers of 32 bits or more on a CPU, uncompiled."""
    is_wide = weight.dtype in (torch.float32, torch.float64)
    return weight.device.type == "cpu" and is_wide and not torch.compiler.is_compiling()


def adds_fast(weight: Tensor) -> bool:
    """Whether `sums_by_adding` is for a matrix: numbers of 32 bits or more on a GPU, uncompiled.

    Sums of 16 bits would be rounded again and again.
    """
    is_wide = weight.dtype in (torch.float32, torch.float64)
    return weight.is_cuda and is_wide and not torch.compiler.is_compiling()


def sums_by_adding(weight: Tensor, rows: Tensor) -> Tensor:
    """``Σ_j W[r_j]`` for (..., m) row numbers, with gradients added where they belong, unsorted.

    Sorting them, as the gradient of torch's lookups does, takes two dozen launches.
    """
    sums: Tensor = _AddedRows.apply(weight, rows)  # type: ignore[no-untyped-call]
    return sums


def _checked(way: Any, rows: Tensor, weight: Tensor, *others: Any) -> Tensor:
    try:
        sums: Tensor = way.apply(rows, weight, *others)
    except RuntimeError:
        if not rows.numel() or (rows.min() >= 0 and rows.max() < len(weight)):
            raise
        raise IndexError("index out of range in self") from None  # as nn.Embedding has it
    return sums


class _AddedRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = weight.shape
        return F.embedding(rows, weight).sum(-2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        each = grad.unsqueeze(-2).expand(*rows.shape, grad.shape[-1])
        total = grad.new_zeros(ctx.shape)
        return total.index_add_(0, rows.flatten(), each.reshape(-1, grad.shape[-1])), None


class _SumsOfRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.count = len(weight)
        return _sums(rows, weight.detach())  # what wants gradients is prepared for torch's own

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, _gradient(ctx.saved_tensors[0], grad, ctx.count)


class _SumsOfPrunedRows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, threshold: Tensor, shift: Tensor, ceiling: Tensor
    ) -> Tensor:
        pruned, slope = pruned_and_slope(weight, (threshold + shift).sigmoid_(), ceiling)
        ctx.save_for_backward(rows, pruned, slope)
        return _sums(rows, pruned)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, None, None]:
        rows, pruned, slope = ctx.saved_tensors
        kept = _gradient(rows, grad, len(pruned))
        torch.ops.aten.hardshrink_backward.grad_input(kept, pruned, 0.0, grad_input=kept)
        return None, kept, slope * kept, None, None


class _WeightedSums(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, shares: Tensor, places: Tensor, count: int
    ) -> Tensor:
        each = rows.shape[1]
        numbers, at = rows.flatten().int(), places.int().repeat_interleave(each)
        values = shares.repeat_interleave(each)
        ctx.save_for_backward(numbers, at, values)
        ctx.shape = count, len(weight)
        return _by_rows(count, at, len(weight), numbers, values).times(weight.detach())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None, None, None]:
        numbers, at, values = ctx.saved_tensors
        count, size = ctx.shape
        found = _by_rows(size, numbers, count, at, values).times(grad.contiguous())
        return None, found, None, None, None


def _by_rows(size: int, rows: Tensor, width: int, columns: Tensor, values: Tensor) -> Csr:
    """The matrix of the shape (size, width) with these values in these places, by counting."""
    offsets, found = torch.empty(size + 1, dtype=torch.int32), torch.empty_like(columns)
    moved = torch.empty_like(values)
    _sparsetools.coo_tocsr(
        *(size, width, len(rows), rows.numpy(), columns.numpy(), values.numpy()),
        *(offsets.numpy(), found.numpy(), moved.numpy()),
    )
    return Csr(offsets, found, moved)


def _sums(rows: Tensor, weight: Tensor) -> Tensor:
    count = rows.shape[-1]
    starts = torch.arange(0, rows.numel() + 1, count, dtype=rows.dtype)
    sums = Csr(starts, rows.reshape(-1)).times(weight)
    return sums if rows.ndim == 2 else sums.view(*rows.shape[:-1], weight.shape[1])


def _gradient(rows: Tensor, grad: Tensor, count: int) -> Tensor:
    """Of each of ``count`` rows, the sum of the gradients of the vectors that it is part of.

    Which vectors is found by counting, in SciPy: with it the sums take a third of the time that m
    times ``index_add_`` take. What SciPy's own classes check besides is a tenth of a lookup.
    """
    numbers = rows.numpy().reshape(-1)
    starts = np.arange(0, numbers.size + 1, rows.shape[-1], dtype=numbers.dtype)
    values = np.empty(numbers.size, dtype=np.int8)  # which it moves, and nobody reads
    offsets, moved = np.empty(count + 1, dtype=numbers.dtype), np.empty_like(values)
    vectors = np.empty_like(numbers)
    _sparsetools.csr_tocsc(
        *(len(starts) - 1, count, starts, numbers, values), *(offsets, vectors, moved)
    )
    found = Csr(torch.from_numpy(offsets), torch.from_numpy(vectors))
    return found.times(grad.reshape(-1, grad.shape[-1]).contiguous())
