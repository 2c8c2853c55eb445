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
from typing import Any, NamedTuple, Protocol

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
LARGEST_TABLE = (1 << 25) - (1 << 16)
"""Bytes of the largest table whose memory training keeps, with room for what malloc adds."""
COLUMNS_OF_LARGE_TABLES = 64
"""That are propagated together where the whole table would be larger: two thirds of the time of all
128 with 200,000 nodes, and nine tenths with 600,000, where these are larger too."""


class Source(Protocol):
    """Where the table E comes from, and where its gradient goes: a few columns at a time.

    What is differentiated are the tensors that a source is given; it keeps none of them.
    """

    def bound(self, tensors: Sequence[Tensor]) -> float:
        """What no entry of E is larger than."""

    def starts(self, tensors: Sequence[Tensor], walk: Walk, scale: float) -> Iterator[Tensor]:
        """``scale · D^-½ E`` in float16, in tables of some columns each."""

    def gradients(self, tables: Iterator[Tensor], walk: Walk, scale: float) -> tuple[Tensor, ...]:
        """Of the tensors, given the tables T of ``∂L/∂E = D^½ T / scale``."""


def half_pair_scores(
    tensors: Sequence[Tensor],
    source: Source,
    walk: Walk,
    layers: int,
    first: Tensor,
    second: Tensor,
) -> Tensor:
    """`Graph.pair_scores` of float32 tensors: to a thousandth in norm, and the same every time."""
    scores: Tensor = _HalfPairScores.apply(  # type: ignore[no-untyped-call]
        source, walk, layers, first, second, *tensors
    )
    return scores


class _HalfPairScores(torch.autograd.Function):
    """With the incoming gradients, each times ``√(d_a d_b)``, in a symmetric sparse matrix G,
    ``∂L/∂E = D^½ Σ_l W^l D^-1 G U / (L+1)²``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        source: Source,
        walk: Walk,
        layers: int,
        first: Tensor,
        second: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        terms = layers + 1
        scale = LARGEST * inverse_power(terms * walk.largest_degree * source.bound(tensors))
        starts = source.starts(tensors, walk, scale)
        sums = [walk.sum_of_powers(start, terms) for start in starts]
        weight = walk.root[first] * walk.root[second, 0] / (scale * terms) ** 2
        dots = torch.cat([_dots(sums, *some) for some in _pieces(first, second)])
        ctx.source, ctx.walk, ctx.terms, ctx.scale = source, walk, terms, scale
        ctx.save_for_backward(first, second, weight, *sums)
        return dots * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        walk: Walk = ctx.walk
        first, second, weight, *sums = ctx.saved_tensors
        values = grad * weight * ctx.scale
        # No entry of D^-1 G U is larger than the largest of U times the largest row of D^-1 |G|.
        sizes, count = values.abs(), len(walk.root)
        rows = torch.bincount(first, sizes.sum(dim=1), count)
        rows += torch.bincount(second.flatten(), sizes.flatten(), count)
        scale = inverse_power(ctx.terms * float((rows / walk.root[:, 0].square()).max()))
        pairs = Csr.symmetric(
            first[:, None].expand_as(second).flatten(),
            second.flatten(),
            (values * (scale * walk.unit)).flatten(),
            count,
        )
        starts = (pairs.times(table).div_(walk.degree) for table in sums)
        tables = (walk.sum_of_powers(start, ctx.terms) for start in starts)
        return None, None, None, None, None, *ctx.source.gradients(tables, walk, scale)


class Walk(NamedTuple):
    """W = D^-1 A; a node without edges counts as of degree 1."""

    adjacency: Csr
    root: Tensor
    """√D, (nodes, 1)"""
    degree: Tensor
    """D times `unit`, (nodes, 1), float16. Up to 2,048 degrees are exact; their inverses would not
    be, and were half of the error of a gradient."""
    unit: float
    """A power of two, 1 for all degrees that float16 has room for."""
    largest_degree: float

    @classmethod
    def on(cls, adjacency: Csr) -> Walk:
        """The walk on a graph; the weights of its edges do not matter."""
        degree = adjacency.offsets.diff().clamp_(min=1).float()[:, None]
        largest = float(degree.max())
        unit = min(1.0, LARGEST * inverse_power(largest))
        plain = adjacency._replace(values=None)
        return cls(plain, degree.sqrt(), (degree * unit).half(), unit, largest)

    def sum_of_powers(self, start: Tensor, terms: int) -> Tensor:
        """``Σ_{l<terms} W^l start``, by Horner's rule: u ← start + W u, from u = start."""
        result = start
        for _ in range(terms - 1):
            sums = self.adjacency.times(result)
            result = torch.addcdiv(start, sums, self.degree, value=self.unit, out=sums)
        return result


def inverse_power(bound: float) -> float:
    """The largest power of two p with ``p · bound < 1``."""
    return 2.0 ** -math.frexp(max(bound, SMALLEST_BOUND))[1]


def largest_of(tensors: Sequence[Tensor]) -> float:
    """``max |entry|``"""
    extremes = [torch.aminmax(tensor) for tensor in tensors]
    return max(max(-float(low), float(high)) for low, high in extremes)


class Blocks(NamedTuple):
    """The source of a table that is there already, in blocks of columns."""

    widths: list[int]
    """Of the blocks."""

    def bound(self, tensors: Sequence[Tensor]) -> float:
        """The largest entry."""
        return largest_of(tensors)

    def starts(self, tensors: Sequence[Tensor], walk: Walk, scale: float) -> Iterator[Tensor]:
        """All blocks side by side, or a table of each."""
        factors, first = scale / walk.root, 0
        for widths in self._tables(len(factors)):
            table = factors.new_empty(len(factors), sum(widths), dtype=torch.float16)
            for columns in torch.split(table, widths, dim=1):
                for some, factor, place in _pieces(tensors[first], factors, columns):
                    place.copy_(some * factor)
                first += 1
            yield table

    def gradients(self, tables: Iterator[Tensor], walk: Walk, scale: float) -> tuple[Tensor, ...]:
        """A block of float32 for each that was given."""
        factors = walk.root / scale
        return tuple(
            _floats(columns, factors)
            for table, widths in zip(tables, self._tables(len(factors)), strict=True)
            for columns in torch.split(table, widths, dim=1)
        )

    def _tables(self, nodes: int) -> list[list[int]]:
        """The widths of the blocks in each table."""
        columns = sum(self.widths)
        if columns_at_once(nodes, columns) == columns:
            return [self.widths]
        return [[width] for width in self.widths]


def columns_at_once(nodes: int, columns: int) -> int:
    """How many columns of a float16 table are propagated together.

    All, unless the table would be larger than the blocks of memory that training keeps (see
    `cerp.training.malloc`): those are handed back to the system each time, and cleared page by
    page when they are asked for again.
    """
    return columns if 2 * nodes * columns < LARGEST_TABLE else COLUMNS_OF_LARGE_TABLES


def _floats(table: Tensor, factors: Tensor) -> Tensor:
    """A table in float32, each row times its factor."""
    block = factors.new_empty(table.shape)
    for some, factor, place in _pieces(table, factors, block):
        place.copy_(some).mul_(factor)
    return block


def _dots(tables: Sequence[Tensor], first: Tensor, second: Tensor) -> Tensor:
    """``⟨u_a, u_b⟩`` in float32, for a in ``first`` (B,) and each b of its row of ``second``."""
    total = torch.zeros(second.shape)
    for table in tables:
        of_first, of_second = (F.embedding(nodes, table).float() for nodes in (first, second))
        total += of_second.mul_(of_first[:, None]).sum(dim=2)  # faster than products of matrices
    return total


def _pieces(*tables: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """A few rows of all tables at a time: what is done to them is done in cache."""
    return zip(*(torch.split(table, ROWS_AT_ONCE) for table in tables), strict=True)
