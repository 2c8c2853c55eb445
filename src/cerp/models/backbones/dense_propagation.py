"""LightGCN's pair scores on GPUs without propagation: one dense matrix takes its place.

Where every vector is a sum of rows, ``E = S Ŵ`` with ones in S that stay where they are, and so

    Z = p(Â) E = (p(Â) S) Ŵ = M Ŵ    and    ∂L/∂Ŵ = Mᵀ ∂L/∂Z.

M, a row for each entity and a column for each row of Ŵ, is computed once. It is stored in half
precision; so are Ŵ and ∂L/∂Z for the products, each scaled to the range of float16, and sums are
float32. No column of S is longer than √u, where u entities have that row, and Â makes nothing
longer, so that no entry of M is larger than √u.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor
from torch.autograd.function import once_differentiable

from cerp.models.backbones.half_propagation import LARGEST, SMALLEST_BOUND, inverse_power
from cerp.models.backbones.propagation import Graph
from cerp.models.embeddings.composition import Composition

MEMORY_SHARE = 0.5
"""Of the GPU's free memory: what M, and the rows of it that a batch takes, may have."""
COLUMNS_AT_ONCE = 512
"""Of M: what is computed together, in float32."""
GATHERED_SHARE = 0.5
"""Where a batch names less than this share of the rows of a side, a copy of those is multiplied.
Copying takes two passes over them, and both products one each; without a copy both products
take all rows of the side."""
SINGLE, HALF = 4, 2
"""Bytes of a number."""


class DensePropagation:
    """``M = p(Â) S``, entities by rows of Ŵ; users are the first rows."""

    def __init__(
        self,
        graph: Graph,
        composition: Composition,
        layers: int,
        num_users: int,
        dtype: torch.dtype = torch.float16,
    ) -> None:
        self.composition, self.num_users = composition, num_users
        num_rows, most = (
            composition.num_rows,
            float(composition.entities_of_rows.offsets.diff().max()),
        )
        self.scale = LARGEST * inverse_power(math.sqrt(most)) if dtype == torch.float16 else 1.0
        self.matrix = torch.empty(graph.num_nodes, num_rows, dtype=dtype, device=composition.device)
        start_type = torch.float64 if dtype == torch.float64 else torch.float32
        for first in range(0, num_rows, COLUMNS_AT_ONCE):
            place = self.matrix[:, first : first + COLUMNS_AT_ONCE]
            start = composition.columns(first, place.shape[1], start_type)
            place.copy_(graph.propagate(start, layers).mul_(self.scale))

    def pair_scores(self, weight: Tensor, users: Tensor, items: Tensor) -> Tensor:
        """``s_bj = ⟨z_users[b], z_items[b, j]⟩`` with ``Z = M · weight``: (B,), (B, m) -> (B, m).

        Differentiable in the weight, once.
        """
        scores: Tensor = _DensePairScores.apply(  # type: ignore[no-untyped-call]
            weight, self, users, items
        )
        return scores

    def of_side(self, chosen: Tensor, rows: Tensor) -> _Chosen:
        """What it takes to multiply some rows of the users' part or the items' part of M."""
        return (_Gathered if is_gathered(len(rows), len(chosen)) else _Whole)(chosen, rows)


class _Gathered:
    """The rows of a batch, copied: fewer to read in both products."""

    def __init__(self, part: Tensor, rows: Tensor) -> None:
        self.part = part.index_select(0, rows)

    def times(self, weight: Tensor) -> Tensor:
        """``M[rows] · weight``"""
        return product(self.part, weight)

    def transposed_times(self, grad: Tensor) -> Tensor:
        """``M[rows]ᵀ · grad``, to be divided by the scale of M."""
        return scaled_product(self.part.T, grad)


class _Whole:
    """All rows of a side, of which those of the batch are looked up."""

    def __init__(self, part: Tensor, rows: Tensor) -> None:
        self.part, self.rows = part, rows

    def times(self, weight: Tensor) -> Tensor:
        """``M[rows] · weight``"""
        return F.embedding(self.rows, product(self.part, weight))

    def transposed_times(self, grad: Tensor) -> Tensor:
        """``M[rows]ᵀ · grad``, to be divided by the scale of M."""
        total = grad.new_zeros(len(self.part), grad.shape[1]).index_add_(0, self.rows, grad)
        return scaled_product(self.part.T, total)


_Chosen = _Gathered | _Whole


class _DensePairScores(torch.autograd.Function):
    """Vectors of the batch alone are kept for the way back."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, dense: DensePropagation, users: Tensor, items: Tensor
    ) -> Tensor:
        users_part, items_part = torch.tensor_split(dense.matrix, [dense.num_users])
        sides = (
            dense.of_side(users_part, users),
            dense.of_side(items_part, items.flatten()),
        )
        stored, scale = stored_as(weight, dense.matrix.dtype)
        factor = 1 / (scale * dense.scale)
        of_users, of_items = (side.times(stored).mul_(factor) for side in sides)
        of_items = of_items.view(*items.shape, -1)
        ctx.sides, ctx.scale = sides, dense.scale
        ctx.save_for_backward(of_users, of_items)
        return torch.bmm(of_items, of_users.unsqueeze(2)).squeeze(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        of_users, of_items = ctx.saved_tensors
        (side_of_users, side_of_items), ctx.sides = ctx.sides, None
        to_users = torch.bmm(grad.unsqueeze(1), of_items).squeeze(1)
        to_items = (grad.unsqueeze(2) * of_users.unsqueeze(1)).flatten(0, 1)
        total = side_of_users.transposed_times(to_users)
        total += side_of_items.transposed_times(to_items)
        return total.div_(ctx.scale), None, None, None


def stored_as(table: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A table times what brings its largest entry to the end of a half's range, and that factor.

    Nothing waits for the device. Other types than half precision are not scaled.
    """
    if dtype != torch.float16:
        return table.to(dtype), table.new_ones(())
    scale = LARGEST / table.abs().amax().clamp_(min=SMALLEST_BOUND)
    return (table * scale).to(dtype), scale


def scaled_product(matrix: Tensor, table: Tensor) -> Tensor:
    """`product` of a table of any range."""
    stored, scale = stored_as(table, matrix.dtype)
    return product(matrix, stored).div_(scale)


def product(matrix: Tensor, table: Tensor) -> Tensor:
    """``matrix · table`` with sums and result in float32; wider numbers stay what they are."""
    if matrix.dtype != torch.float16:
        return matrix @ table
    with torch.autocast(matrix.device.type, enabled=False):  # which would copy M to cast it
        if matrix.is_cuda:
            return torch.mm(matrix, table, out_dtype=torch.float32)
        return matrix.float() @ table.float()


def is_gathered(batch_rows: int, all_rows: int) -> bool:
    """Whether the rows of a batch are copied, given how many rows their side has."""
    return batch_rows < GATHERED_SHARE * all_rows


class DenseRule(NamedTuple):
    """Which way a training step takes: M where it is cheaper, and where it fits."""

    graph: Graph
    layers: int
    dim: int
    num_rows: int
    """Of Ŵ."""
    sides: tuple[tuple[int, int], tuple[int, int]]
    """(rows of the batch, all rows), of users and of items."""

    def chooses_dense(self, device: torch.device) -> bool:
        """Whether M takes the place of propagation on a device."""
        if not hasattr(torch.ops.aten.mm, "dtype"):  # sums in float32, from torch 2.8 on
            return False
        return self.is_cheaper and self.bytes_needed <= MEMORY_SHARE * free_memory(device)

    @property
    def is_cheaper(self) -> bool:
        """Whether a step reads less of M than propagation reads of tables, forward and backward.

        Both ways wait for memory: on an H200 eight products with Gowalla's graph read 5.9 GB in
        1.04 ms.
        """
        read = sum(
            4 * batch if is_gathered(batch, every) else 2 * every for batch, every in self.sides
        )
        return HALF * self.num_rows * read < SINGLE * self.dim * 2 * self.layers * len(
            self.graph.values
        )

    @property
    def bytes_needed(self) -> int:
        """Of M, of the rows that are copied in a step, and of what M is made in."""
        copied = sum(batch for batch, every in self.sides if is_gathered(batch, every))
        nodes = self.graph.num_nodes
        making = 4 * SINGLE * nodes * min(COLUMNS_AT_ONCE, self.num_rows)
        return HALF * self.num_rows * (nodes + copied) + making


def free_memory(device: torch.device) -> int:
    """Bytes that a GPU has for more; what torch holds in reserve counts as free."""
    if device.type != "cuda":
        return sys.maxsize
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
