"""LightGCN's pair scores on CPUs, with what is propagated in half precision.

A CPU spends a propagation waiting for rows of a table, and rows of float16 are
half as long. With the degrees D and the random walk ``W = D^-1 A``, which
replaces every row by the mean of its neighbours, ``Â = D^½ W D^-½``. So with
``U = Σ_{l=0..L} W^l D^-½ E``

    (L+1) Z = D^½ U    and    s_ab = √(d_a d_b) ⟨u_a, u_b⟩ / (L+1)².

W has no weights to be read and rounded, and a mean is never larger than what it
is of: if no entry of ``D^-½ E`` is larger than c, then none of U is larger than
(L+1) c, and no sum over neighbours is larger than d_max (L+1) c. Scaling by a
power of two, which is exact, keeps that within the range of float16 for weights
of any size. Sums and dot products are float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.models.sparse import Csr

LARGEST = 2.0**15
"""No stored entry may exceed it; float16 ends at almost twice as much."""
SMALLEST_BOUND = 2.0**-100
"""Tables and gradients below are scaled no further: float32 ends there too."""
ROWS_AT_ONCE = 1 << 12
"""Rows that are converted together: they stay in cache."""


def half_pair_scores(
    blocks: Sequence[Tensor], adjacency: Csr, layers: int, first: Tensor, second: Tensor
) -> Tensor:
    """`Graph.pair_scores` of float32 blocks: to a thousandth in norm, and the same every time."""
    scores: Tensor = _HalfPairScores.apply(  # type: ignore[no-untyped-call]
        adjacency, layers, first, second, *blocks
    )
    return scores


class _HalfPairScores(torch.autograd.Function):
    """With the incoming gradients, each times ``√(d_a d_b)``, in a symmetric sparse matrix G,
    ``∂L/∂E = D^½ Σ_l W^l D^-1 G U / (L+1)²``.
    """

    @staticmethod
    def forward(
        ctx: Any, adjacency: Csr, layers: int, first: Tensor, second: Tensor, *blocks: Tensor
    ) -> Tensor:
        walk, terms = Walk.on(adjacency), layers + 1
        scale = LARGEST * inverse_power(terms * walk.largest_degree * _largest(blocks))
        sums = walk.sum_of_powers(_halved(blocks, scale / walk.root), terms)
        weight = walk.root[first] * walk.root[second, 0] / (scale * terms) ** 2
        dots = torch.cat([_dots(sums, *some) for some in _pieces(first, second)])
        ctx.walk, ctx.terms, ctx.scale = walk, terms, scale
        ctx.widths = [block.shape[1] for block in blocks]
        ctx.save_for_backward(first, second, sums, weight)
        return dots * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        walk: Walk = ctx.walk
        first, second, sums, weight = ctx.saved_tensors
        values = grad * weight * ctx.scale
        # No entry of D^-1 G U is larger than the largest of U times the largest row of D^-1 |G|.
        sizes, count = values.abs(), len(walk.root)
        rows = torch.bincount(first, sizes.sum(dim=1), count)
        rows += torch.bincount(second.flatten(), sizes.flatten(), count)
        scale = inverse_power(ctx.terms * float((rows / walk.root[:, 0].square()).max()))
        pairs = Csr.symmetric(
            first[:, None].expand_as(second).flatten(),
            second.flatten(),
            (values * scale).flatten(),
            count,
        )
        start = pairs.times(sums).mul_(walk.inverse_degree)
        gradient = walk.sum_of_powers(start, ctx.terms)
        return None, None, None, None, *_floats(gradient, walk.root / scale, ctx.widths)


class Walk(NamedTuple):
    """W = D^-1 A; a node without edges counts as of degree 1."""

    adjacency: Csr
    root: Tensor
    """√D, (nodes, 1)"""
    inverse_degree: Tensor
    """D^-1, (nodes, 1), float16"""
    largest_degree: float

    @classmethod
    def on(cls, adjacency: Csr) -> Walk:
        """The walk on a graph; the weights of its edges do not matter."""
        degree = adjacency.offsets.diff().clamp_(min=1).float()[:, None]
        plain = adjacency._replace(values=None)
        return cls(plain, degree.sqrt(), degree.reciprocal().half(), float(degree.max()))

    def sum_of_powers(self, start: Tensor, terms: int) -> Tensor:
        """``Σ_{l<terms} W^l start``, by Horner's rule: u ← start + W u, from u = start."""
        result = start
        for _ in range(terms - 1):
            sums = self.adjacency.times(result)
            result = torch.addcmul(start, self.inverse_degree, sums, out=sums)
        return result


def inverse_power(bound: float) -> float:
    """The largest power of two p with ``p · bound < 1``."""
    return 2.0 ** -math.frexp(max(bound, SMALLEST_BOUND))[1]


def _largest(blocks: Sequence[Tensor]) -> float:
    """``max |entry|``"""
    extremes = [torch.aminmax(block) for block in blocks]
    return max(max(-float(low), float(high)) for low, high in extremes)


def _dots(table: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """``⟨u_a, u_b⟩`` in float32, for a in ``first`` (B,) and each b of its row of ``second``."""
    of_first, of_second = (F.embedding(nodes, table).float() for nodes in (first, second))
    return torch.einsum("bd,bmd->bm", of_first, of_second)


def _halved(blocks: Sequence[Tensor], factors: Tensor) -> Tensor:
    """The blocks side by side in float16, each row times its factor."""
    widths = [block.shape[1] for block in blocks]
    table = blocks[0].new_empty(len(factors), sum(widths), dtype=torch.float16)
    for block, columns in zip(blocks, torch.split(table, widths, dim=1), strict=True):
        for some, factor, place in _pieces(block, factors, columns):
            place.copy_(some * factor)
    return table


def _floats(table: Tensor, factors: Tensor, widths: Sequence[int]) -> list[Tensor]:
    """The columns of a table in blocks of float32, each row times its factor."""
    blocks = [factors.new_empty(len(table), width) for width in widths]
    for block, columns in zip(blocks, torch.split(table, list(widths), dim=1), strict=True):
        for some, factor, place in _pieces(columns, factors, block):
            place.copy_(some).mul_(factor)
    return blocks


def _pieces(*tables: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """A few rows of all tables at a time: what is done to them is done in cache."""
    return zip(*(torch.split(table, ROWS_AT_ONCE) for table in tables), strict=True)
