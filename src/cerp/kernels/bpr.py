# ruff: noqa: ANN001, N803  (Triton reads annotations as its own, and has constants in capitals)
# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The loss of `cerp.training.losses.bpr`, and its slope, in one pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

VALUES = 512
"""Of a tile."""


def bpr_and_slope(scores: Tensor) -> tuple[Tensor, Tensor]:
    """``Σ_b Σ_j softplus(y_bj − y_b0)``, and its gradient in the scores, (B, m)."""
    count, items = scores.shape
    width = 1 << (items - 1).bit_length()
    at_once = max(VALUES // width, 1)
    tiles = triton.cdiv(count, at_once)
    parts, slope = torch.empty(tiles, device=scores.device), torch.empty_like(scores)
    if count:
        _bpr[(tiles,)](scores, parts, slope, count, items, width, at_once)
    return parts.sum(), slope


@triton.jit
def _bpr(
    scores, parts, slope, count, ITEMS: tl.constexpr, WIDTH: tl.constexpr, AT_ONCE: tl.constexpr
) -> None:
    own = tl.program_id(0) * AT_ONCE + tl.arange(0, AT_ONCE)
    item = tl.arange(0, WIDTH)[None, :]
    is_there = own < count
    within = is_there[:, None] & (item < ITEMS)
    at = own[:, None] * ITEMS + item
    positive = tl.load(scores + own * ITEMS, mask=is_there, other=0.0)
    ahead = tl.load(scores + at, mask=within, other=0.0) - positive[:, None]
    is_negative = within & (item > 0)
    ebbing = tl.exp(-tl.abs(ahead))
    loss = tl.where(is_negative, tl.maximum(ahead, 0.0) + tl.log(1 + ebbing), 0.0)
    tl.store(parts + tl.program_id(0), tl.sum(tl.sum(loss, axis=1), axis=0))
    rising = tl.where(is_negative, tl.sigmoid(ahead), 0.0)
    falling = tl.sum(rising, axis=1)[:, None]
    tl.store(slope + at, tl.where(item == 0, -falling, rising), mask=within)
