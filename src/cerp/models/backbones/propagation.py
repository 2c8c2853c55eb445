"""LightGCN's propagation: a polynomial of the normalised adjacency, applied to a table.

``p(Â) E = 1/(L+1) · Σ_{l=0..L} Â^l E`` with ``Â = D^(-1/2) A D^(-1/2)`` of the
bipartite training graph, no self-loops. Â is symmetric, so the gradient of a
loss with respect to E is the same polynomial applied to its gradient with
respect to ``p(Â) E``: nothing is transposed and no stack of layers is stored.

Columns of E do not mix, so E comes and goes in blocks of columns. On a CPU
most of the time is spent waiting for memory: a block stays in cache through
all layers, the graph numbers its nodes so that neighbours are near, and what is
propagated for training is stored in half precision (see `cerp.models.backbones.half_propagation`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from cerp.assignment.ordering import entity_degrees, spectral_line
from cerp.data.ids import Int64Array
from cerp.data.interactions import Interactions
from cerp.models.backbones.half_propagation import Blocks, Walk, half_pair_scores
from cerp.models.sparse import Csr, reordered

CPU_COLUMN_BLOCK = 64
"""Columns of E that are computed together on CPUs in float32; on GPUs all of them are. `propagate`
alone is a little faster with 128 on some processors (see results/propagation.json)."""
DIMENSIONS_OF_THE_LINE = 16
"""Of the points that `near_neighbours` bisects. On Gowalla that takes 0.7 s; more gain nothing."""
HALVINGS = 3
"""Of the order, for products on up to eight threads."""


class Graph(nn.Module):
    """The normalised adjacency Â of training edges, as CSR over nodes in an order of its own.

    Tables and entities outside are numbered as ever: users first, then items.
    A node without edges keeps 1/(L+1) of its vector.
    """

    offsets: Tensor
    columns: Tensor
    values: Tensor
    entities: Tensor
    """Of each node."""
    nodes: Tensor
    """Of each entity."""

    def __init__(self, train: Interactions) -> None:
        super().__init__()
        self.num_nodes = train.num_users + train.num_items
        for name, tensor in _buffers(train).items():
            self.register_buffer(name, tensor, persistent=False)
        self._walk: Walk | None = None

    @property
    def adjacency(self) -> Csr:
        """Â"""
        return Csr(self.offsets, self.columns, self.values)

    @property
    def walk(self) -> Walk:
        """The random walk on the graph, made when it is first asked for."""
        if self._walk is None or self._walk.adjacency.columns is not self.columns:
            self._walk = Walk.on(self.adjacency)
        return self._walk

    def propagate(self, table: Tensor, layers: int) -> Tensor:
        """``p(Â) table``"""
        width = table.shape[1] if table.is_cuda else CPU_COLUMN_BLOCK
        blocks = torch.split(table, width, dim=1)
        sums = [self.geometric_sum(reordered(block, self.entities), layers) for block in blocks]
        return reordered(torch.cat(sums, dim=1), self.nodes) / (layers + 1)

    def pair_scores(
        self, blocks: Sequence[Tensor], layers: int, first: Tensor, second: Tensor
    ) -> Tensor:
        """``s_bj = ⟨z_first[b], z_second[b, j]⟩`` with ``Z = p(Â) E``: (B,), (B, m) -> (B, m).

        E comes in blocks of columns with a row for each node; pairs are nodes
        too. Differentiable in the blocks, once. The same as looking the rows up
        in `propagate`, with less memory traffic: neither Z nor its gradient is
        ever put together. On a CPU blocks of float32 go through the layers in
        half precision (see `cerp.models.backbones.half_propagation`).
        """
        if blocks[0].device.type == "cpu" and blocks[0].dtype == torch.float32:
            source = Blocks([block.shape[1] for block in blocks])
            return half_pair_scores(blocks, source, self.walk, layers, first, second)
        scores: Tensor = _PairScores.apply(  # type: ignore[no-untyped-call]
            self, layers, first, second, *blocks
        )
        return scores

    def geometric_sum(self, block: Tensor, layers: int) -> Tensor:
        """``Σ_{l=0..L} Â^l block`` by Horner's rule: L times y ← block + Â y, from y = block.

        The block has a row for each node.
        """
        adjacency = self.adjacency
        result = block = block.contiguous()
        for _ in range(layers):
            result = adjacency.times_plus(result, block)
        return result


@lru_cache(maxsize=1)
def _buffers(train: Interactions) -> dict[str, Tensor]:
    """Of a `Graph`. Kept, because a run makes several of the same edges; nobody writes to them."""
    num_nodes = train.num_users + train.num_items
    entities = near_neighbours(train)
    nodes = np.empty_like(entities)
    nodes[entities] = np.arange(num_nodes)
    user, item = nodes[train.user], nodes[train.item + np.int64(train.num_users)]
    edges = np.concatenate([user * num_nodes + item, item * num_nodes + user])
    rows, columns = np.divmod(np.sort(edges), num_nodes)
    degree = np.bincount(rows, minlength=num_nodes)
    values = 1 / np.sqrt(degree[rows] * degree[columns])
    index = np.int32 if len(columns) <= np.iinfo(np.int32).max else np.int64
    arrays = {
        "offsets": np.concatenate([[0], np.cumsum(degree)]).astype(index),
        "columns": columns.astype(index),
        "values": values.astype(np.float32),
        "entities": entities,
        "nodes": nodes,
    }
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class _PairScores(torch.autograd.Function):
    """Goes through Z a block of columns at a time.

    With the incoming gradients in a symmetric sparse matrix G, one entry and
    its mirror for each pair, ``∂L/∂Z = G Z`` and so ``∂L/∂E = p(Â) G Z``.
    What is summed and kept is (L+1) Z.
    """

    @staticmethod
    def forward(
        ctx: Any, graph: Graph, layers: int, first: Tensor, second: Tensor, *blocks: Tensor
    ) -> Tensor:
        sums = []
        scores = blocks[0].new_zeros(second.shape)
        for block in blocks:
            summed = graph.geometric_sum(block, layers)
            scores += torch.einsum(
                "bd,bmd->bm", F.embedding(first, summed), F.embedding(second, summed)
            )
            sums.append(summed)
        ctx.graph, ctx.layers = graph, layers
        ctx.save_for_backward(first, second, *sums)
        return scores.div_((layers + 1) ** 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        graph: Graph = ctx.graph
        first, second, *sums = ctx.saved_tensors
        pairs = Csr.symmetric(
            first[:, None].expand_as(second).flatten(),
            second.flatten(),
            grad.flatten() / (ctx.layers + 1) ** 2,
            graph.num_nodes,
        )
        gradients = (graph.geometric_sum(pairs.times(block), ctx.layers) for block in sums)
        return None, None, None, None, *gradients


def near_neighbours(train: Interactions) -> Int64Array:
    """Entities in an order in which those with common neighbours stand near each other.

    Users and items in the line of their leading singular vectors, as `spectral_line` bisects it: a
    product with Â then finds much of what it reads in cache. And every half, quarter and eighth of
    the order has its share of the edges, for threads get equal numbers of rows. On Gowalla and two
    cores a product takes half of the time that it takes in the order of the ids.
    """
    shape = train.num_users, train.num_items
    line = spectral_line(train.user, train.item, shape, dimensions=DIMENSIONS_OF_THE_LINE)
    users, items = line[line < train.num_users], line[line >= train.num_users]
    return np.concatenate(_equal_stretches(users, items, entity_degrees(train), HALVINGS))


def _equal_stretches(
    users: Int64Array, items: Int64Array, degrees: Int64Array, halvings: int
) -> list[Int64Array]:
    """Items and users of each stretch: all of as many rows and, as nearly as that allows, edges."""
    if not halvings:
        return [items, users]
    rows = -(-(len(users) + len(items)) // 2)
    counts = np.arange(max(0, rows - len(users)), min(len(items), rows) + 1)
    before_user, before_item = (np.cumsum(np.append(0, degrees[side])) for side in (users, items))
    edges = before_item[counts] + before_user[rows - counts]
    half = (before_item[-1] + before_user[-1]) / 2
    taken = counts[np.argmin(np.abs(edges - half))]
    return [
        *_equal_stretches(users[: rows - taken], items[:taken], degrees, halvings - 1),
        *_equal_stretches(users[rows - taken :], items[taken:], degrees, halvings - 1),
    ]
