"""LightGCN's pair scores on GPUs without propagation: one dense matrix takes its place.

Where every vector is a sum of rows, ``E = S Ŵ`` with ones in S that stay where they are, and so

    Z = p(Â) E = (p(Â) S) Ŵ = M Ŵ    and    ∂L/∂Ŵ = Mᵀ ∂L/∂Z.

M, a row for each entity and a column for each row of Ŵ, is computed once; of its rows those of a
batch are multiplied (see `cerp.models.backbones.chosen_rows`). It is stored in half
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

from cerp.kernels import tiles
from cerp.kernels.triton_there import products_work_on
from cerp.models.backbones.chosen_rows import RowsOfSides, is_gathered, stored_as
from cerp.models.backbones.half_propagation import LARGEST, inverse_power
from cerp.models.backbones.kernel_scores import kernel_scores
from cerp.models.backbones.propagation import Graph
from cerp.models.embeddings.composition import Composition

MEMORY_SHARE = 0.5
"""Of the GPU's free memory: what M, and the rows of it that a batch takes, may have."""
COLUMNS_AT_ONCE = 512
"""Of M: what is computed together, in float32."""
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
        self.matrix = torch.zeros(
            graph.num_nodes, padded(num_rows), dtype=dtype, device=composition.device
        )
        start_type = torch.float64 if dtype == torch.float64 else torch.float32
        for first in range(0, num_rows, COLUMNS_AT_ONCE):
            last = min(first + COLUMNS_AT_ONCE, num_rows)
            place = self.matrix[:, first:last]
            start = composition.columns(first, last - first, start_type)
            place.copy_(graph.propagate(start, layers).mul_(self.scale))

    def has_kernels(self, dim: int) -> bool:
        """Whether tables of so many columns are multiplied by kernels of our own."""
        return tiles.takes(self.matrix, dim) and products_work_on(self.matrix.device)

    def pair_scores(self, weight: Tensor, users: Tensor, items: Tensor) -> Tensor:
        """``s_bj = ⟨z_users[b], z_items[b, j]⟩`` with ``Z = M · weight``: (B,), (B, m) -> (B, m).

        Differentiable in the weight, once.
        """
        if self.has_kernels(weight.shape[1]):
            return kernel_scores(weight, self.matrix, self.scale, users, items + self.num_users)
        scores: Tensor = _DensePairScores.apply(  # type: ignore[no-untyped-call]
            weight, self, users, items
        )
        return scores


class _DensePairScores(torch.autograd.Function):
    """Vectors of the batch alone are kept for the way back."""

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, dense: DensePropagation, users: Tensor, items: Tensor
    ) -> Tensor:
        with torch.autocast(weight.device.type, enabled=False):  # scores are float32, as ever
            rows = RowsOfSides(dense.matrix, dense.num_users, users, items)
            stored, scale = stored_as(weight, dense.matrix.dtype)
            unused = dense.matrix.shape[1] - len(weight)
            found = rows.times(F.pad(stored, (0, 0, 0, unused))).div_(scale * dense.scale)
            of_users, of_items = torch.split(found, [users.numel(), items.numel()])
            of_items = of_items.view(*items.shape, weight.shape[1])
            ctx.rows, ctx.scale, ctx.count = rows, dense.scale, len(weight)
            ctx.save_for_backward(of_users, of_items)
            return torch.bmm(of_items, of_users.unsqueeze(2)).squeeze(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        of_users, of_items = ctx.saved_tensors
        rows, ctx.rows = ctx.rows, None
        to_users = torch.bmm(grad.unsqueeze(1), of_items).squeeze(1)
        to_items = (grad.unsqueeze(2) * of_users.unsqueeze(1)).flatten(0, 1)
        found: Tensor = rows.transposed_times(torch.cat([to_users, to_items]))
        return found[: ctx.count].div(ctx.scale), None, None, None


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
        return HALF * padded(self.num_rows) * read < SINGLE * self.dim * 2 * self.layers * len(
            self.graph.values
        )

    @property
    def bytes_needed(self) -> int:
        """Of M, of the rows that are copied in a step, and of what M is made in."""
        copied = sum(batch for batch, every in self.sides if is_gathered(batch, every))
        nodes = self.graph.num_nodes
        making = 4 * SINGLE * nodes * min(COLUMNS_AT_ONCE, self.num_rows)
        return HALF * padded(self.num_rows) * (nodes + copied) + making


def padded(num_rows: int) -> int:
    """Columns of M: rows of it that begin at multiples of 16 bytes are read at twice the speed."""
    return -(-num_rows // tiles.COLUMNS) * tiles.COLUMNS


def free_memory(device: torch.device) -> int:
    """Bytes that a GPU has for more; what torch holds in reserve counts as free."""
    if device.type != "cuda":
        return sys.maxsize
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
