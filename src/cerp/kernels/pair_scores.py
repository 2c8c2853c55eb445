# ruff: noqa: ANN001, ANN201, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Scores of the pairs of a batch whose vectors are sums of rows of a table, and their gradient."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from cerp.kernels.penalty import BatchPenalty, penalty_slope

PAIRED = 4
"""Users of a tile: their vectors and those of their items stay in registers and cache."""
SETTINGS = {"num_warps": 2}


def pair_scores(table: Tensor, rows: Tensor, items: int, factor: Tensor | None = None) -> Tensor:
    """``s_bj = ⟨x_b, y_bj⟩``: (B, items), of vectors ``f·Σ_k table[r_k]``.

    Rows are (n, m), those of B users, then those of their items.
    """
    users = len(rows) // (1 + items)
    scores = torch.empty(users, items, device=table.device)
    if users:
        _scores[(triton.cdiv(users, PAIRED),)](
            *(table, rows, factor, scores, users, items, rows.shape[1], table.shape[1], PAIRED),
            **SETTINGS,
        )
    return scores


def pair_gradient(
    table: Tensor,
    rows: Tensor,
    grad: Tensor,
    *,
    factor: Tensor | None = None,
    penalty: BatchPenalty | None = None,
) -> Tensor:
    """Of the rows that vectors are sums of, given that of the scores; what a row gets is added up.

    A factor counts as part of the table. With a penalty its gradient is added, given its own.
    """
    total = torch.zeros_like(table)
    users, items = grad.shape
    named, drawn, slope, temperature = penalty or (None, None, None, 0.0)
    if users:
        _gradient[(triton.cdiv(users, PAIRED),)](
            *(table, rows, factor, grad.contiguous(), total, named, drawn, slope),
            *(temperature, users, items, rows.shape[1], table.shape[1], PAIRED),
            **SETTINGS,
        )
    return total


@triton.jit
def sum_of_rows(table, rows, places, is_there, BOOKS: tl.constexpr, DIM: tl.constexpr):
    """``Σ_k table[r_k]`` of some places."""
    dims = tl.arange(0, DIM)[None, :]
    row = tl.load(rows + places * BOOKS, mask=is_there, other=0).to(tl.int64)
    found = tl.load(table + row[:, None] * DIM + dims, mask=is_there[:, None], other=0.0)
    for book in tl.static_range(1, BOOKS):
        row = tl.load(rows + places * BOOKS + book, mask=is_there, other=0).to(tl.int64)
        found += tl.load(table + row[:, None] * DIM + dims, mask=is_there[:, None], other=0.0)
    return found


@triton.jit
def add_to_rows(total, rows, places, is_there, slope, BOOKS: tl.constexpr, DIM: tl.constexpr):
    """Add the gradients of some places to those of their rows."""
    dims = tl.arange(0, DIM)[None, :]
    for book in tl.static_range(BOOKS):
        row = tl.load(rows + places * BOOKS + book, mask=is_there, other=0).to(tl.int64)
        into = total + row[:, None] * DIM + dims
        tl.atomic_add(into, slope, mask=is_there[:, None], sem="relaxed")


@triton.jit
def _scores(
    table,
    rows,
    factor,
    scores,
    users,
    ITEMS: tl.constexpr,
    BOOKS: tl.constexpr,
    DIM: tl.constexpr,
    PAIRED: tl.constexpr,
) -> None:
    own = tl.program_id(0) * PAIRED + tl.arange(0, PAIRED)
    is_there = own < users
    user = sum_of_rows(table, rows, own, is_there, BOOKS, DIM)
    if factor is not None:
        shrink = tl.load(factor)
        user *= shrink
    for item in tl.static_range(ITEMS):
        other = sum_of_rows(table, rows, users + own * ITEMS + item, is_there, BOOKS, DIM)
        if factor is not None:
            other *= shrink
        tl.store(scores + own * ITEMS + item, tl.sum(user * other, axis=1), mask=is_there)


@triton.jit
def _gradient(
    table,
    rows,
    factor,
    grad,
    total,
    named,
    drawn,
    penalty_grad,
    temperature,
    users,
    ITEMS: tl.constexpr,
    BOOKS: tl.constexpr,
    DIM: tl.constexpr,
    PAIRED: tl.constexpr,
) -> None:
    own = tl.program_id(0) * PAIRED + tl.arange(0, PAIRED)
    is_there = own < users
    user = sum_of_rows(table, rows, own, is_there, BOOKS, DIM)
    to_user = tl.zeros((PAIRED, DIM), dtype=tl.float32)
    for item in tl.static_range(ITEMS):  # nothing is written between these loads
        slope = tl.load(grad + own * ITEMS + item, mask=is_there, other=0.0)[:, None]
        to_user += slope * sum_of_rows(
            table, rows, users + own * ITEMS + item, is_there, BOOKS, DIM
        )
    if factor is not None:
        shrink = tl.load(factor)
        to_user *= shrink
        user *= shrink
    if penalty_grad is not None:
        weight = tl.load(penalty_grad)
        who = tl.load(named + own, mask=is_there, other=0)
        share = weight / tl.load(drawn + who, mask=is_there, other=1.0)
        to_user += penalty_slope(user, temperature) * share[:, None]
    for item in tl.static_range(ITEMS):
        places = users + own * ITEMS + item
        slope = tl.load(grad + own * ITEMS + item, mask=is_there, other=0.0)[:, None]
        to_item = slope * user
        if penalty_grad is not None:
            other = sum_of_rows(table, rows, places, is_there, BOOKS, DIM)
            to_item += penalty_slope(other, temperature) * weight
        add_to_rows(total, rows, places, is_there, to_item, BOOKS, DIM)
    add_to_rows(total, rows, own, is_there, to_user, BOOKS, DIM)
