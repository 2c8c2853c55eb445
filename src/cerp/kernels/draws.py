# ruff: noqa: ANN001, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Training batches out of uniform numbers, in one launch; see `cerp.training.sampling.Sampler`."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

POSITIVES = 64
"""Of a tile."""


def drawn_batches(
    order: Tensor,
    skips: Tensor,
    offsets: Tensor,
    uniform: Tensor,
    num_items: int,
    most: int,
    size: int,
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Users and items of the positives at some places, and negatives by the ranks drawn.

    They come in batches of a size, the last of which may be smaller. ``skips`` are ``user *
    num_items + (p_j − j)``, sorted, those of a user between its ``offsets``, of which no two are
    further apart than ``most``; uniform numbers are (B, k).
    """
    count, negatives = uniform.shape
    wide = 2 + negatives
    drawn = skips.new_empty(wide * count)  # a batch in a row, so that it is copied at once
    _draw[(-(-count // POSITIVES),)](
        *(order, skips, offsets, uniform, drawn, count, size, num_items),
        *(negatives, 1 << (negatives - 1).bit_length(), most.bit_length(), POSITIVES),
    )
    batches = []
    for first in range(0, max(count, 1), size):
        own = min(size, count - first)
        row = drawn[wide * first : wide * (first + own)]
        users, positives, others = row.split_with_sizes([own, own, negatives * own])
        batches.append((users, positives, others.view(own, negatives)))
    return batches


@triton.jit(do_not_specialize=["count", "size", "num_items"])
def _draw(
    order,
    skips,
    offsets,
    uniform,
    drawn,
    count,
    size,
    num_items,
    NEGATIVES: tl.constexpr,
    WIDTH: tl.constexpr,
    HALVINGS: tl.constexpr,
    POSITIVES: tl.constexpr,
) -> None:
    own = tl.program_id(0) * POSITIVES + tl.arange(0, POSITIVES)
    is_there = own < count
    place = tl.load(order + own, mask=is_there, other=0).to(tl.int64)
    skip = tl.load(skips + place, mask=is_there, other=0)
    user = skip // num_items
    start = tl.load(offsets + user, mask=is_there, other=0)
    end = tl.load(offsets + user + 1, mask=is_there, other=0)
    # Where the row's batch begins, and how many rows that has.
    first = own // size * size
    rows = tl.minimum(count - first, size)
    to = drawn + (2 + NEGATIVES) * first + (own - first)
    tl.store(to, user, mask=is_there)
    tl.store(to + rows, skip - user * num_items + (place - start), mask=is_there)
    column = tl.arange(0, WIDTH)[None, :]
    within = is_there[:, None] & (column < NEGATIVES)
    at = own[:, None] * NEGATIVES + column
    free = num_items - (end - start)
    share = tl.load(uniform + at, mask=within, other=0.0)
    rank = (share * free[:, None].to(tl.float64)).to(tl.int64)
    key = (user * num_items)[:, None] + rank
    # How many of the user's skips are no larger, by halving.
    low = start[:, None] + tl.zeros_like(rank)
    high = end[:, None] + tl.zeros_like(rank)
    for _ in tl.static_range(HALVINGS):
        middle = (low + high) // 2
        is_open = low < high
        reached = tl.load(skips + middle, mask=within & is_open, other=0) <= key
        low = tl.where(is_open & reached, middle + 1, low)
        high = tl.where(is_open & (reached == 0), middle, high)
    others = drawn + (2 + NEGATIVES) * first + 2 * rows + (own - first) * NEGATIVES
    tl.store(others[:, None] + column, rank + low - start[:, None], mask=within)
