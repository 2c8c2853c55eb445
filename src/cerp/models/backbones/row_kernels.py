"""Products with some rows of a large half-precision matrix, read where they lie; for GPUs.

A copy of the rows would be written and read once more than the matrix itself. The kernels are
Triton's, which torch brings along where it has GPUs; without it, other ways are taken.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

ROWS, COLUMNS, INNER = 128, 128, 64
"""Of a tile: rows of the result forward, columns of the matrix backward, and what is summed over
at a time. The matrix has a multiple of ``COLUMNS`` columns."""
FEWEST_COLUMNS = 4096
"""Of a matrix that the kernels are compiled for, which takes some seconds on a new machine: with
fewer, as where codes are learned, products are a small part of a step."""
MOST_PARTS = 16
"""Into which the rows are cut backward, so that every multiprocessor has something to do."""
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
    parts = _parts(tiles, _multiprocessors(matrix.device))
    out = torch.empty(parts, width, dim, device=matrix.device)
    _rows_transposed_times[(tiles, parts)](
        matrix, rows, count, table, out, width, dim, COLUMNS, INNER, parts, **SETTINGS
    )
    return out.sum(0)


def takes(matrix: Tensor, dim: int) -> bool:
    """Whether the kernels are for a matrix, times tables of so many columns."""
    is_tile = 16 <= dim <= 256 and dim & (dim - 1) == 0
    return matrix.dtype == torch.float16 and matrix.shape[1] >= FEWEST_COLUMNS and is_tile


@lru_cache
def work_on(device: torch.device) -> bool:
    """Whether the kernels can be compiled for a device, and give what they should.

    Compiling takes a C compiler, which a machine may lack; what it lacks is not told apart.
    """
    if triton is None or device.type != "cuda":
        return False
    try:
        return errors(device) < 1e-3
    except Exception:
        return False


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


def _parts(tiles: int, multiprocessors: int) -> int:
    """Parts of the rows such that tiles of all parts fill the multiprocessors evenly."""

    def idle(parts: int) -> float:
        waves = tiles * parts / multiprocessors
        return math.ceil(waves) / waves

    return min(range(1, MOST_PARTS + 1), key=idle)


def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _rows_times(  # type: ignore[no-untyped-def]
        matrix,  # noqa: ANN001  (Triton reads annotations as its own)
        rows,  # noqa: ANN001
        count,  # noqa: ANN001
        table,  # noqa: ANN001
        out,  # noqa: ANN001
        width,  # noqa: ANN001
        DIM: tl.constexpr,  # noqa: N803  (Triton's own convention)
        ROWS: tl.constexpr,  # noqa: N803
        INNER: tl.constexpr,  # noqa: N803
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

    @triton.jit  # type: ignore[untyped-decorator]
    def _rows_transposed_times(  # type: ignore[no-untyped-def]
        matrix,  # noqa: ANN001  (Triton reads annotations as its own)
        rows,  # noqa: ANN001
        count,  # noqa: ANN001
        table,  # noqa: ANN001
        out,  # noqa: ANN001
        width,  # noqa: ANN001
        DIM: tl.constexpr,  # noqa: N803
        COLUMNS: tl.constexpr,  # noqa: N803
        INNER: tl.constexpr,  # noqa: N803
        PARTS: tl.constexpr,  # noqa: N803
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
