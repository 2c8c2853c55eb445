# ruff: noqa: ANN001, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""A training batch out of uniform numbers, in one launch; see `cerp.training.sampling.Sampler`."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

POSITIVES = 64
"""Of a tile."""


def drawn_batch(
    order: Tensor, skips: Tensor, offsets: Tensor, uniform: Tensor, num_items: int, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Users and items of the positives at some places, and negatives by the ranks drawn.

    ``skips`` are ``user * num_items + (p_j − j)``, sorted, those of a user between its
    ``offsets``, of which no two are further apart than ``most``; uniform numbers are (B, k).
    """
    count, negatives = uniform.shape
    drawn = skips.new_empty((2 + negatives) * count)  # in a row, so that they are copied at once
    _draw[(-(-count // POSITIVES),)](
        *(order, skips, offsets, uniform, drawn, count, num_items),
        *(negatives, 1 << (negatives - 1).bit_length(), most.bit_length(), POSITIVES),
    )
    users, positives, others = drawn.split_with_sizes([count, count, negatives * count])
    return users, positives, others.view(count, negatives)


@triton.jit(do_not_specialize=["count", "num_items"])
def _draw(
    order,
    skips,
    offsets,
    uniform,
    drawn,
    count,
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
    tl.store(drawn + own, user, mask=is_there)
    tl.store(drawn + count + own, skip - user * num_items + (place - start), mask=is_there)
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
    tl.store(drawn + 2 * count + at, rank + low - start[:, None], mask=within)
