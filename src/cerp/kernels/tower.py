# ruff: noqa: ANN001, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""What stands around the products of the MLP: sums of halves, relus, their masks, sums of columns.

Hidden layers are (n, width) matrices of float32, with widths that
`cerp.models.backbones.kernel_tower` takes; rows are the pairs of a batch, a user's in a row.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

VALUES = 4096
"""Of a tile."""
COLUMNS = 128
"""Of a tile at most."""


def add_halves(items: Tensor, users: Tensor) -> None:
    """``relu(u_b + v_bj)`` in the place of v, (B·m, width), for u of (B, width)."""
    count, width = items.shape
    columns, rows = _tile(width)
    if count:
        _add_halves[(triton.cdiv(count, rows), width // columns)](
            *(items, users, count, count // len(users), width, columns, rows)
        )


def last_scores(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``w·h + b``, (n,)."""
    count, width = hidden.shape
    rows = max(VALUES // width, 1)
    scores = hidden.new_empty(count)
    if count:
        _last_scores[(triton.cdiv(count, rows),)](hidden, weight, bias, scores, count, width, rows)
    return scores


def last_gradients(
    grad: Tensor, hidden: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of the sums before the last relu, (n, width), of their bias, of w and of b."""
    count, width = hidden.shape
    rows = max(VALUES // width, 1)
    found = torch.empty_like(hidden)
    sums = hidden.new_zeros(2 * width + 1)
    to_bias, to_weight, to_last = torch.split(sums, [width, width, 1])
    if count:
        _last_gradients[(triton.cdiv(count, rows),)](
            grad, hidden, weight, found, sums, count, width, rows
        )
    return found, to_bias, to_weight, to_last


def mask(grad: Tensor, hidden: Tensor) -> Tensor:
    """Set the gradient of a relu to zero where it gave none; the sums of its columns."""
    count, width = hidden.shape
    columns, rows = _tile(width)
    sums = hidden.new_zeros(width)
    if count:
        _mask[(triton.cdiv(count, rows), width // columns)](
            grad, hidden, sums, count, width, columns, rows
        )
    return sums


def mask_halves(grad: Tensor, hidden: Tensor, users: int) -> tuple[Tensor, Tensor]:
    """The same of the first layer: the sums of the pairs of each user, (B, width), and of all."""
    count, width = hidden.shape
    columns, rows = _tile(width)
    at_once = max(rows // 8, 1)
    found, sums = hidden.new_empty(users, width), hidden.new_zeros(width)
    if count:
        _mask_halves[(triton.cdiv(users, at_once), width // columns)](
            grad, hidden, found, sums, users, count // users, width, columns, at_once
        )
    return found, sums


def _columns(width: int) -> int:
    """The largest power of two that divides a width, within a tile."""
    return min(width & -width, COLUMNS)


def _tile(width: int) -> tuple[int, int]:
    columns = _columns(width)
    return columns, VALUES // columns


@triton.jit
def _add_halves(
    items,
    users,
    count,
    EACH: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    within = (rows < count)[:, None]
    at = rows.to(tl.int64)[:, None] * WIDTH + columns
    half = tl.load(users + (rows // EACH)[:, None] * WIDTH + columns, mask=within, other=0.0)
    found = tl.maximum(tl.load(items + at, mask=within, other=0.0) + half, 0.0)
    tl.store(items + at, found, mask=within)


@triton.jit
def _last_scores(
    hidden, weight, bias, scores, count, WIDTH: tl.constexpr, ROWS: tl.constexpr
) -> None:
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    is_there = rows < count
    at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
    value = tl.load(hidden + at, mask=is_there[:, None], other=0.0)
    found = tl.sum(value * tl.load(weight + columns)[None, :], axis=1) + tl.load(bias)
    tl.store(scores + rows, found, mask=is_there)


@triton.jit
def _last_gradients(
    grad, hidden, weight, found, sums, count, WIDTH: tl.constexpr, ROWS: tl.constexpr
) -> None:
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    is_there = rows < count
    at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
    slope = tl.load(grad + rows, mask=is_there, other=0.0)
    value = tl.load(hidden + at, mask=is_there[:, None], other=0.0)
    back = tl.where(value > 0, slope[:, None] * tl.load(weight + columns)[None, :], 0.0)
    tl.store(found + at, back, mask=is_there[:, None])
    tl.atomic_add(sums + columns, tl.sum(back, axis=0), sem="relaxed")
    tl.atomic_add(sums + WIDTH + columns, tl.sum(value * slope[:, None], axis=0), sem="relaxed")
    tl.atomic_add(sums + 2 * WIDTH, tl.sum(slope, axis=0), sem="relaxed")


@triton.jit
def _mask(
    grad,
    hidden,
    sums,
    count,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    within = (rows < count)[:, None]
    at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
    value = tl.load(hidden + at, mask=within, other=0.0)
    back = tl.where(value > 0, tl.load(grad + at, mask=within, other=0.0), 0.0)
    tl.store(grad + at, back, mask=within)
    tl.atomic_add(sums + columns, tl.sum(back, axis=0), sem="relaxed")


@triton.jit
def _mask_halves(
    grad,
    hidden,
    found,
    sums,
    users,
    EACH: tl.constexpr,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    USERS: tl.constexpr,
) -> None:
    own = tl.program_id(0) * USERS + tl.arange(0, USERS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    within = (own < users)[:, None]
    total = tl.zeros((USERS, COLUMNS), dtype=tl.float32)
    for item in tl.static_range(EACH):
        at = (own.to(tl.int64) * EACH + item)[:, None] * WIDTH + columns[None, :]
        value = tl.load(hidden + at, mask=within, other=0.0)
        back = tl.where(value > 0, tl.load(grad + at, mask=within, other=0.0), 0.0)
        tl.store(grad + at, back, mask=within)
        total += back
    tl.store(found + own.to(tl.int64)[:, None] * WIDTH + columns[None, :], total, mask=within)
    tl.atomic_add(sums + columns, tl.sum(total, axis=0), sem="relaxed")
