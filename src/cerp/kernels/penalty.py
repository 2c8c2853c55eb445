# ruff: noqa: ANN001, ANN201, ANN202, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The penalty of vectors that are sums of rows, and its gradient, without a table of them."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

ENTITIES = 16
"""Of a tile."""


class BatchPenalty(NamedTuple):
    """What the penalty of a batch, or its gradient, is made of besides vectors."""

    users: Tensor
    """(B,): of the first B vectors; items follow."""
    drawn: Tensor
    """(num_users,): how often each user is in the batch. In each place one counts ``1/drawn``."""
    grad: Tensor
    """What comes back to the penalty, a scalar."""
    temperature: float


def penalty_of_sums(
    weight: Tensor, rows: Tensor, counts: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """``−Σ_k w_k ‖tanh(η e_k)‖²`` with ``e_k = Σ_j W[r_kj]``, and its gradient in every e_k.

    Rows are (N, m), counts w (N,).
    """
    entities, books = rows.shape
    dim = weight.shape[1]
    gradient = torch.empty(entities, dim, device=weight.device)
    tiles = triton.cdiv(entities, ENTITIES)
    parts = torch.empty(tiles, device=weight.device)
    _penalty[(tiles,)](
        *(weight, rows, counts, gradient, parts, entities, temperature, books, dim, ENTITIES)
    )
    return parts.sum(), gradient


def penalty_of_batch(
    weight: Tensor, rows: Tensor, users: Tensor, drawn: Tensor, temperature: float
) -> Tensor:
    """``−Σ_k w_k ‖tanh(η e_k)‖²`` where rows are those of B users, who count as `BatchPenalty`
    says, then those of items, which count 1.
    """
    entities, books = rows.shape
    tiles = triton.cdiv(entities, ENTITIES)
    parts = torch.empty(tiles, device=weight.device)
    _penalty_of_batch[(tiles,)](
        *(weight, rows, users, drawn, parts, len(users), entities),
        *(temperature, books, weight.shape[1], ENTITIES),
    )
    return parts.sum()


@triton.jit
def _smooth(angle):
    """``|tanh|`` of an angle: the difference of exponentials would cancel near zero."""
    size = tl.abs(angle)
    ebbing = tl.exp(-2 * size)
    far = (1 - ebbing) / (1 + ebbing)
    square = angle * angle
    near = size * (1 + square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315))))
    return tl.where(size < 0.2, near, far)


@triton.jit
def penalty_slope(vector, temperature):
    """d/de of ``−tanh²(ηe)``."""
    angle = vector * temperature
    smooth = _smooth(angle)
    slope = -2 * temperature * (smooth - smooth * smooth * smooth)
    return tl.where(angle < 0, -slope, slope)


@triton.jit
def _penalty(
    weight,
    rows,
    counts,
    gradient,
    parts,
    entities,
    temperature,
    BOOKS: tl.constexpr,
    DIM: tl.constexpr,
    ENTITIES: tl.constexpr,
) -> None:
    own = tl.program_id(0) * ENTITIES + tl.arange(0, ENTITIES)
    is_there = own < entities
    dims = tl.arange(0, DIM)[None, :]
    count = tl.load(counts + own, mask=is_there, other=0.0)
    counted = (count != 0)[:, None]  # nothing is read of the others
    vector = tl.zeros((ENTITIES, DIM), dtype=tl.float32)
    for book in tl.static_range(BOOKS):
        row = tl.load(rows + own * BOOKS + book, mask=is_there, other=0).to(tl.int64)
        vector += tl.load(weight + row[:, None] * DIM + dims, mask=counted, other=0.0)
    slope = penalty_slope(vector, temperature) * count[:, None]
    tl.store(gradient + own[:, None] * DIM + dims, slope, mask=is_there[:, None])
    smooth = _smooth(vector * temperature)
    tl.store(parts + tl.program_id(0), -tl.sum(tl.sum(smooth * smooth, axis=1) * count, axis=0))


@triton.jit
def _penalty_of_batch(
    weight,
    rows,
    users,
    drawn,
    parts,
    num_users,
    entities,
    temperature,
    BOOKS: tl.constexpr,
    DIM: tl.constexpr,
    ENTITIES: tl.constexpr,
) -> None:
    own = tl.program_id(0) * ENTITIES + tl.arange(0, ENTITIES)
    is_there = own < entities
    dims = tl.arange(0, DIM)[None, :]
    is_user = own < num_users
    user = tl.load(users + own, mask=is_user, other=0)
    count = 1 / tl.load(drawn + user, mask=is_user, other=1.0)
    vector = tl.zeros((ENTITIES, DIM), dtype=tl.float32)
    for book in tl.static_range(BOOKS):
        row = tl.load(rows + own * BOOKS + book, mask=is_there, other=0).to(tl.int64)
        vector += tl.load(weight + row[:, None] * DIM + dims, mask=is_there[:, None], other=0.0)
    smooth = _smooth(vector * temperature)
    tl.store(parts + tl.program_id(0), -tl.sum(tl.sum(smooth * smooth, axis=1) * count, axis=0))
