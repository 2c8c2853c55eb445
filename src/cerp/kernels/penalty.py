# ruff: noqa: ANN001, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The penalty of vectors that are sums of rows, and its gradient, without a table of them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ENTITIES = 16
"""Of a tile."""


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
        weight, rows, counts, gradient, parts, entities, temperature, books, dim, ENTITIES
    )
    return -parts.sum(), gradient


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
    angle = vector * temperature
    size = tl.abs(angle)
    ebbing = tl.exp(-2 * size)
    far = (1 - ebbing) / (1 + ebbing)
    square = angle * angle
    near = size * (1 + square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315))))
    smooth = tl.where(size < 0.2, near, far)  # |tanh|: the difference would cancel near zero
    squared = smooth * smooth
    slope = -2 * temperature * count[:, None] * (smooth - squared * smooth)
    slope = tl.where(angle < 0, -slope, slope)
    tl.store(gradient + own[:, None] * DIM + dims, slope, mask=is_there[:, None])
    tl.store(parts + tl.program_id(0), tl.sum(tl.sum(squared, axis=1) * count, axis=0))
