# ruff: noqa: ANN001, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Scores of the pairs of a batch from the vectors of its distinct entities, and their gradient."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PAIRED = 16
"""Users of a tile."""


def pair_scores(table: Tensor, places: Tensor, factor: Tensor, items: int) -> Tensor:
    """``s_bj = ⟨f·t[p_b], f·t[q_bj]⟩``: (B, items), for places of B users, then of their items."""
    users = len(places) // (1 + items)
    scores = torch.empty(users, items, device=table.device)
    if users:
        grid = (triton.cdiv(users, PAIRED),)
        _scores[grid](table, places, factor, scores, users, items, table.shape[1], PAIRED)
    return scores


def pair_gradient(table: Tensor, places: Tensor, factor: Tensor, grad: Tensor) -> Tensor:
    """Of the vectors ``f·t``, given that of the scores; what a vector gets is added up."""
    total = torch.zeros_like(table)
    users, items = grad.shape
    if users:
        grid = (triton.cdiv(users, PAIRED),)
        _gradient[grid](
            table, places, factor, grad.contiguous(), total, users, items, table.shape[1], PAIRED
        )
    return total


@triton.jit
def _scores(
    table,
    places,
    factor,
    scores,
    users,
    ITEMS: tl.constexpr,
    DIM: tl.constexpr,
    PAIRED: tl.constexpr,
) -> None:
    own = tl.program_id(0) * PAIRED + tl.arange(0, PAIRED)
    is_there = own < users
    dims = tl.arange(0, DIM)[None, :]
    shrink = tl.load(factor)
    place = tl.load(places + own, mask=is_there, other=0)
    user = tl.load(table + place[:, None] * DIM + dims, mask=is_there[:, None], other=0.0)
    user *= shrink
    for item in tl.static_range(ITEMS):
        place = tl.load(places + users + own * ITEMS + item, mask=is_there, other=0)
        other = tl.load(table + place[:, None] * DIM + dims, mask=is_there[:, None], other=0.0)
        found = tl.sum(user * (other * shrink), axis=1)
        tl.store(scores + own * ITEMS + item, found, mask=is_there)


@triton.jit
def _gradient(
    table,
    places,
    factor,
    grad,
    total,
    users,
    ITEMS: tl.constexpr,
    DIM: tl.constexpr,
    PAIRED: tl.constexpr,
) -> None:
    own = tl.program_id(0) * PAIRED + tl.arange(0, PAIRED)
    is_there = own < users
    dims = tl.arange(0, DIM)[None, :]
    shrink = tl.load(factor)
    of_user = tl.load(places + own, mask=is_there, other=0)[:, None] * DIM + dims
    user = tl.load(table + of_user, mask=is_there[:, None], other=0.0) * shrink
    to_user = tl.zeros((PAIRED, DIM), dtype=tl.float32)
    for item in tl.static_range(ITEMS):
        place = tl.load(places + users + own * ITEMS + item, mask=is_there, other=0)
        of_item = place[:, None] * DIM + dims
        slope = tl.load(grad + own * ITEMS + item, mask=is_there, other=0.0)[:, None]
        other = tl.load(table + of_item, mask=is_there[:, None], other=0.0) * shrink
        to_user += slope * other
        tl.atomic_add(total + of_item, slope * user, mask=is_there[:, None], sem="relaxed")
    tl.atomic_add(total + of_user, to_user, mask=is_there[:, None], sem="relaxed")
