"""The table of all vectors ``w[p_k] + w[q_k]``, with a gradient that has a fixed order."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor


class Composition(NamedTuple):
    """Which two rows every entity is made of, and which entities every row is part of."""

    pairs: Tensor
    """(N, 2): the rows of each entity."""
    members: Tensor
    """(2N,): entities, grouped by row."""
    offsets: Tensor
    """(rows + 1,): where the group of each row begins, and the end of the last."""

    @classmethod
    def of(cls, row_p: Tensor, row_q: Tensor, num_rows: int) -> Composition:
        """Of the rows of all entities."""
        rows = torch.cat([row_p, row_q])
        members = torch.sort(rows, stable=True).indices % len(row_p)
        offsets = F.pad(torch.bincount(rows, minlength=num_rows).cumsum(0), (1, 0))
        return cls(torch.stack([row_p, row_q], dim=1), members, offsets)

    def table(self, weight: Tensor) -> Tensor:
        """``out[k] = w[p_k] + w[q_k]`` for all k, differentiable in w."""
        result: Tensor = _SumOfRows.apply(weight, self)  # type: ignore[no-untyped-call]
        return result


class _SumOfRows(torch.autograd.Function):
    """Each row's gradient is summed over its entities in a fixed order.

    That is fast on CPUs, and the same in every run on GPUs, where scattered additions are not.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, composition: Composition) -> Tensor:
        ctx.composition = composition
        return F.embedding_bag(composition.pairs, weight, mode="sum")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        _, members, offsets = ctx.composition
        summed = F.embedding_bag(
            members, grad.contiguous(), offsets, mode="sum", include_last_offset=True
        )
        return summed, None
