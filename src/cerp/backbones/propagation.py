"""LightGCN's propagation: a polynomial of the normalised adjacency, applied to a table.

``p(Â) E = 1/(L+1) · Σ_{l=0..L} Â^l E`` with ``Â = D^(-1/2) A D^(-1/2)`` of the
bipartite training graph, no self-loops. Â is symmetric, so the gradient of a
loss with respect to E is the same polynomial applied to its gradient with
respect to ``p(Â) E``: nothing is transposed and no stack of layers is stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cerp.data.interactions import Interactions
from cerp.sparse import Csr

CPU_COLUMN_BLOCK = 32
"""On CPUs this many columns go through all layers together: a block of the table then
stays in cache (see results/propagation.json for other widths)."""


class Graph(nn.Module):
    """The normalised adjacency Â of training edges: CSR, users first, then items.

    A node without edges keeps 1/(L+1) of its vector.
    """

    offsets: Tensor
    columns: Tensor
    values: Tensor

    def __init__(self, train: Interactions) -> None:
        super().__init__()
        self.num_nodes = train.num_users + train.num_items
        # Interactions are sorted by user, then item: the users' rows as they stand.
        by_item = np.argsort(train.item, kind="stable")
        columns = np.concatenate([train.item + np.int64(train.num_users), train.user[by_item]])
        degree = np.concatenate([np.diff(train.user_offsets), train.item_counts])
        offsets = np.concatenate([[0], np.cumsum(degree)])
        values = 1 / np.sqrt(np.repeat(degree, degree) * degree[columns])
        index = np.int32 if len(columns) <= np.iinfo(np.int32).max else np.int64
        for name, array in (
            ("offsets", offsets.astype(index)),
            ("columns", columns.astype(index)),
            ("values", values.astype(np.float32)),
        ):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def propagate(self, table: Tensor, layers: int) -> Tensor:
        """``p(Â) table``"""
        blocks = column_blocks(table)
        return torch.cat([self.geometric_sum(b / (layers + 1), layers) for b in blocks], dim=1)

    def pair_scores(self, table: Tensor, layers: int, first: Tensor, second: Tensor) -> Tensor:
        """``s_bj = ⟨z_first[b], z_second[b, j]⟩`` with ``Z = p(Â) table``: (B,), (B, m) -> (B, m).

        Differentiable in the table, once. The same as looking the rows up in
        `propagate`, with less memory traffic: neither Z nor its gradient is
        ever put together from its blocks.
        """
        scores: Tensor = _PairScores.apply(  # type: ignore[no-untyped-call]
            table, self, layers, first, second
        )
        return scores

    def geometric_sum(self, block: Tensor, layers: int) -> Tensor:
        """``Σ_{l=0..L} Â^l block`` by Horner's rule: L times y ← block + Â y, from y = block."""
        adjacency = Csr(self.offsets, self.columns, self.values)
        result = block = block.contiguous()
        for _ in range(layers):
            result = adjacency.times_plus(result, block)
        return result


def column_blocks(table: Tensor) -> tuple[Tensor, ...]:
    """The table in parts that are propagated one after the other: a single one on GPUs."""
    return torch.split(table, table.shape[1] if table.is_cuda else CPU_COLUMN_BLOCK, dim=1)


class _PairScores(torch.autograd.Function):
    """Goes through Z a block of columns at a time.

    With the incoming gradients in a symmetric sparse matrix G, one entry and
    its mirror for each pair, ``∂L/∂Z = G Z`` and so ``∂L/∂E = p(Â) G Z``.
    """

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, graph: Graph, layers: int, first: Tensor, second: Tensor
    ) -> Tensor:
        blocks = []
        scores = table.new_zeros(second.shape)
        for columns in column_blocks(table):
            block = graph.geometric_sum(columns / (layers + 1), layers)
            scores += torch.einsum(
                "bd,bmd->bm", F.embedding(first, block), F.embedding(second, block)
            )
            blocks.append(block)
        ctx.graph, ctx.layers = graph, layers
        ctx.save_for_backward(first, second, *blocks)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        first, second, *blocks = ctx.saved_tensors
        pairs = Csr.symmetric(
            first[:, None].expand_as(second).flatten(),
            second.flatten(),
            grad.flatten() / (ctx.layers + 1),
            ctx.graph.num_nodes,
        )
        gradient = grad.new_empty(ctx.graph.num_nodes, sum(block.shape[1] for block in blocks))
        for block, into in zip(blocks, column_blocks(gradient), strict=True):
            into.copy_(ctx.graph.geometric_sum(pairs.times(block), ctx.layers))
        return gradient, None, None, None, None
