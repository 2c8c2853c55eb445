# ruff: noqa: ANN001, ANN202, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Vectors that are sums of rows of one matrix, pruned on the way, and the gradients of its rows."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from cerp.kernels.pair_scores import add_to_rows, sum_of_rows
from cerp.kernels.penalty import BatchPenalty, penalty_slope
from cerp.kernels.soft_threshold import share_of_ceiling, shrunk

VALUES = 1024
"""Of a tile."""
NAMED = 256
"""Entities of a tile whose rows are looked up."""
CHECKED = {"debug": True, "sanitize_overflow": False}
"""Ids out of range end a kernel, as they do torch's own; sums of integers are not looked at."""


def row_sums(
    weight: Tensor,
    threshold: Tensor | None,
    shift: Tensor | None,
    ceiling: Tensor | None,
    mask: Tensor | None,
    ids: Tensor,
    rows: Tensor,
    is_of_all: bool,
    padding: int | None,
) -> Tensor:
    """``Σ_j Ŵ[r_j]``, (n, d), with thresholds, a mask, or neither.

    Rows are (N, m) for all ids, or (n, m) for those given; the padding's vector is zero.
    """
    count, (known, books), dim = ids.numel(), rows.shape, weight.shape[1]
    found = weight.new_empty(count, dim)
    if count:
        width, at_once = _tile(dim)
        _sums[(-(-count // at_once),)](
            *(weight, threshold, shift, ceiling, mask, ids, rows, found),
            *(count, known, padding, is_of_all, books, dim, width, at_once),
            **CHECKED,
        )
    return found


def row_gradients(
    grad: Tensor,
    weight: Tensor | None,
    threshold: Tensor | None,
    shift: Tensor | None,
    ceiling: Tensor | None,
    mask: Tensor | None,
    ids: Tensor,
    rows: Tensor,
    is_of_all: bool,
    padding: int | None,
    shape: torch.Size,
) -> tuple[Tensor, Tensor | None]:
    """Of weights of a shape, which are read where thresholds are, and of thresholds."""
    count, books, dim = ids.numel(), rows.shape[1], shape[1]
    to_threshold = None
    if threshold is None:
        to_weight = grad.new_zeros(shape)
    else:  # one kernel writes the zeros of both
        to_weight, to_threshold = grad.new_zeros(2, *shape).unbind(0)
    if count:
        width, at_once = _tile(dim)
        _gradients[(-(-count // at_once),)](
            *(weight, threshold, shift, ceiling, mask, ids, rows, grad, to_weight, to_threshold),
            *(count, padding, is_of_all, books, dim, width, at_once),
        )
    return to_weight, to_threshold


def _tile(dim: int) -> tuple[int, int]:
    """Dimensions, of which those beyond ``dim`` are left out, and vectors of a tile."""
    width = 1 << (dim - 1).bit_length()
    return width, max(VALUES // width, 1)


def batch_rows(table: Tensor, users: Tensor, items: Tensor, num_users: int) -> Tensor:
    """Rows of a batch, (n, m): those of users (B,), then of items, out of those of all entities."""
    first, count, books = users.numel(), users.numel() + items.numel(), table.shape[1]
    found = table.new_empty(count, books)
    if count:
        width = 1 << (books - 1).bit_length()
        _rows[(triton.cdiv(count, NAMED),)](
            *(table, users.contiguous(), items.contiguous(), found, first, count, num_users),
            *(len(table), books, width, NAMED),
            **CHECKED,
        )
    return found


def batch_vectors(table: Tensor, rows: Tensor) -> Tensor:
    """``Σ_j table[r_j]``, (n, d), for (n, m) rows and d a power of two."""
    (count, books), dim = rows.shape, table.shape[1]
    found = table.new_empty(count, dim)
    at_once = max(VALUES // dim, 1)
    if count:
        _vectors[(triton.cdiv(count, at_once),)](table, rows, found, count, books, dim, at_once)
    return found


def batch_gradient(
    vectors: Tensor, rows: Tensor, grad: Tensor, height: int, penalty: BatchPenalty | None
) -> Tensor:
    """Of the rows of a matrix of some height, given that of vectors that are sums of them.

    With a penalty its gradient is added, given its own; rows are (n, m).
    """
    count, dim = vectors.shape
    total = grad.new_zeros(height, dim)
    users, drawn, penalty_grad, temperature = penalty or (None, None, None, 0.0)
    at_once = max(VALUES // dim, 1)
    if count:
        _batch_gradient[(triton.cdiv(count, at_once),)](
            *(vectors, rows, grad.contiguous(), total, users, drawn, penalty_grad, temperature),
            *(0 if users is None else len(users), count, rows.shape[1], dim, at_once),
        )
    return total


@triton.jit
def _starts(own, DIM: tl.constexpr):
    """Where vectors begin."""
    return own.to(tl.int64)[:, None] * DIM


@triton.jit(do_not_specialize=["count", "known"])
def _sums(
    weight,
    threshold,
    shift,
    ceiling,
    mask,
    ids,
    rows,
    found,
    count,
    known,
    padding,
    IS_OF_ALL: tl.constexpr,
    BOOKS: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    AT_ONCE: tl.constexpr,
) -> None:
    own = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    is_there = own < count
    dims = tl.arange(0, WIDTH)[None, :]
    name = tl.load(ids + own, mask=is_there, other=0).to(tl.int64)
    places = own.to(tl.int64)
    if IS_OF_ALL:
        places = name
        tl.device_assert((name >= 0) & (name < known), "index out of range in self")
    read = is_there
    if padding is not None:
        read = is_there & (name != padding)
    within = read[:, None] & (dims < DIM)
    if threshold is not None:
        common, most = tl.load(shift), tl.load(ceiling)
    vector = tl.zeros((AT_ONCE, WIDTH), dtype=tl.float32)
    for book in tl.static_range(BOOKS):
        row = tl.load(rows + places * BOOKS + book, mask=read, other=0).to(tl.int64)
        if not IS_OF_ALL:
            tl.device_assert(row >= 0, "index out of range in self")
        at = row[:, None] * DIM + dims
        value = tl.load(weight + at, mask=within, other=0.0)
        if threshold is not None:
            share = share_of_ceiling(tl.load(threshold + at, mask=within, other=0.0), common)
            value = shrunk(value, most * share)
        if mask is not None:
            value *= tl.load(mask + at, mask=within, other=0).to(tl.float32)
        vector += value
    tl.store(found + _starts(own, DIM) + dims, vector, mask=is_there[:, None] & (dims < DIM))


@triton.jit(do_not_specialize=["count"])
def _gradients(
    weight,
    threshold,
    shift,
    ceiling,
    mask,
    ids,
    rows,
    grad,
    to_weight,
    to_threshold,
    count,
    padding,
    IS_OF_ALL: tl.constexpr,
    BOOKS: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    AT_ONCE: tl.constexpr,
) -> None:
    own = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    dims = tl.arange(0, WIDTH)[None, :]
    is_there = own < count
    name = tl.load(ids + own, mask=is_there, other=0).to(tl.int64)
    places = own.to(tl.int64)
    if IS_OF_ALL:
        places = name
    read = is_there
    if padding is not None:
        read = is_there & (name != padding)
    within = read[:, None] & (dims < DIM)
    slope = tl.load(grad + _starts(own, DIM) + dims, mask=within, other=0.0)
    if threshold is not None:
        common, most = tl.load(shift), tl.load(ceiling)
    for book in tl.static_range(BOOKS):
        row = tl.load(rows + places * BOOKS + book, mask=read, other=0).to(tl.int64)
        at = row[:, None] * DIM + dims
        kept = slope
        if threshold is not None:
            value = tl.load(weight + at, mask=within, other=0.0)
            share = share_of_ceiling(tl.load(threshold + at, mask=within, other=0.0), common)
            kept = tl.where(tl.abs(value) > most * share, slope, 0.0)
            signed = tl.where(value < 0, -kept, kept)
            to_own = signed * (most * share * (share - 1))
            tl.atomic_add(to_threshold + at, to_own, mask=within, sem="relaxed")
        if mask is not None:
            kept *= tl.load(mask + at, mask=within, other=0).to(tl.float32)
        tl.atomic_add(to_weight + at, kept, mask=within, sem="relaxed")


@triton.jit(do_not_specialize=["first", "count", "num_users", "known"])
def _rows(
    table,
    users,
    items,
    found,
    first,
    count,
    num_users,
    known,
    BOOKS: tl.constexpr,
    WIDTH: tl.constexpr,
    NAMED: tl.constexpr,
) -> None:
    own = tl.program_id(0) * NAMED + tl.arange(0, NAMED)
    is_user, is_there = own < first, own < count
    user = tl.load(users + own, mask=is_user, other=0)
    item = tl.load(items + own - first, mask=is_there & (own >= first), other=0)
    name = tl.where(is_user, user, item + num_users)
    tl.device_assert((name >= 0) & (name < known), "index out of range in self")
    book = tl.arange(0, WIDTH)[None, :]
    within = is_there[:, None] & (book < BOOKS)
    row = tl.load(table + name[:, None] * BOOKS + book, mask=within, other=0)
    tl.store(found + own[:, None] * BOOKS + book, row, mask=within)


@triton.jit
def _vectors(
    table, rows, found, count, BOOKS: tl.constexpr, DIM: tl.constexpr, AT_ONCE: tl.constexpr
) -> None:
    own = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    is_there = own < count
    vector = sum_of_rows(table, rows, own, is_there, BOOKS, DIM)
    at = own[:, None] * DIM + tl.arange(0, DIM)[None, :]
    tl.store(found + at, vector, mask=is_there[:, None])


@triton.jit
def _batch_gradient(
    vectors,
    rows,
    grad,
    total,
    users,
    drawn,
    penalty_grad,
    temperature,
    num_users,
    count,
    BOOKS: tl.constexpr,
    DIM: tl.constexpr,
    AT_ONCE: tl.constexpr,
) -> None:
    own = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    dims = tl.arange(0, DIM)[None, :]
    is_there = own < count
    at = own[:, None] * DIM + dims
    slope = tl.load(grad + at, mask=is_there[:, None], other=0.0)
    if penalty_grad is not None:
        vector = tl.load(vectors + at, mask=is_there[:, None], other=0.0)
        is_user = own < num_users
        user = tl.load(users + own, mask=is_user, other=0)
        share = tl.load(penalty_grad) / tl.load(drawn + user, mask=is_user, other=1.0)
        slope += penalty_slope(vector, temperature) * share[:, None]
    add_to_rows(total, rows, own, is_there, slope, BOOKS, DIM)
