# ruff: noqa: ANN001, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Products with some rows of a large half-precision matrix, read where they lie; for GPUs.

A copy of the rows would be written and read once more than the matrix itself.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from cerp.kernels.tiles import COLUMNS, even_parts

ROWS, INNER = 128, 64
"""Of a tile: rows of the result forward, and what is summed over at a time."""
SETTINGS = {"num_warps": 8, "num_stages": 4}


def rows_times(matrix: Tensor, rows: Tensor, count: Tensor, most: int, table: Tensor) -> Tensor:
    """``matrix[rows[:count]] · table`` in float32, in the first rows of (most, d).

    ``count`` lies on the device: nothing waits for it.
    """
    out = torch.empty(most, table.shape[1], device=matrix.device)
    _rows_times[(triton.cdiv(most, ROWS),)](
        matrix,
        rows,
        count,
        table,
        out,
        matrix.shape[1],
        table.shape[1],
        ROWS,
        INNER,
        **SETTINGS,
    )
    return out


def rows_transposed_times(matrix: Tensor, rows: Tensor, count: Tensor, table: Tensor) -> Tensor:
    """``matrix[rows[:count]]ᵀ · table[:count]`` in float32."""
    width, dim = matrix.shape[1], table.shape[1]
    tiles = width // COLUMNS
    parts = even_parts(tiles, _multiprocessors(matrix.device))
    out = torch.empty(parts, width, dim, device=matrix.device)
    _rows_transposed_times[(tiles, parts)](
        matrix, rows, count, table, out, width, dim, COLUMNS, INNER, parts, **SETTINGS
    )
    return out.sum(0)


def errors(device: torch.device) -> float:
    """The largest relative error of both products in a small example."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.rand(300, 2 * COLUMNS, generator=generator).half().to(device)
    table = torch.rand(2 * COLUMNS, 32, generator=generator).half().to(device)
    grads = torch.rand(260, 32, generator=generator).half().to(device)
    rows = torch.randperm(300, generator=generator).int().to(device)
    count = torch.tensor([257], dtype=torch.int32, device=device)
    chosen = matrix[rows[:257].long()].double()
    forward = rows_times(matrix, rows, count, 260, table)[:257]
    backward = rows_transposed_times(matrix, rows, count, grads)
    pairs = (
        (forward, chosen @ table.double()),
        (backward, chosen.T @ grads[:257].double()),
    )
    return max(float((found - true).abs().max() / true.abs().max()) for found, true in pairs)


def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@triton.jit
def _rows_times(
    matrix,
    rows,
    count,
    table,
    out,
    width,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    INNER: tl.constexpr,
) -> None:
    total = tl.load(count)
    first = tl.program_id(0) * ROWS
    if first < total:
        places = first + tl.arange(0, ROWS)
        is_there = places < total
        own = tl.load(rows + places, mask=is_there, other=0).to(tl.int64)
        inner, dims = tl.arange(0, INNER), tl.arange(0, DIM)
        left = matrix + own[:, None] * width + inner[None, :]
        right = table + inner[:, None] * DIM + dims[None, :]
        sums = tl.zeros((ROWS, DIM), dtype=tl.float32)
        for _ in range(0, width, INNER):
            sums = tl.dot(tl.load(left), tl.load(right), sums)
            left += INNER
            right += INNER * DIM
        tl.store(out + places[:, None] * DIM + dims[None, :], sums, mask=is_there[:, None])


@triton.jit
def _rows_transposed_times(
    matrix,
    rows,
    count,
    table,
    out,
    width,
    DIM: tl.constexpr,
    COLUMNS: tl.constexpr,
    INNER: tl.constexpr,
    PARTS: tl.constexpr,
) -> None:
    total = tl.load(count)
    part = tl.program_id(1)
    share = tl.cdiv(tl.cdiv(total, PARTS), INNER) * INNER
    end = tl.minimum((part + 1) * share, total)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inner, dims = tl.arange(0, INNER), tl.arange(0, DIM)
    sums = tl.zeros((COLUMNS, DIM), dtype=tl.float32)
    for first in range(part * share, end, INNER):
        places = first + inner
        is_there = places < end
        own = tl.load(rows + places, mask=is_there, other=0).to(tl.int64)
        left = tl.load(matrix + own[:, None] * width + columns[None, :])
        right = tl.load(
            table + places[:, None] * DIM + dims[None, :], mask=is_there[:, None], other=0.0
        )
        sums = tl.dot(tl.trans(left), right, sums)
    start = out + part * width * DIM
    tl.store(start + columns[:, None] * DIM + dims[None, :], sums)
