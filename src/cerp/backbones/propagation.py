"""LightGCN's propagation: a polynomial of the normalised adjacency, applied to a table.

``p(Â) E = 1/(L+1) · Σ_{l=0..L} Â^l E`` with ``Â = D^(-1/2) A D^(-1/2)`` of the
bipartite training graph, no self-loops. Â is symmetric, so the gradient of a
loss with respect to E is the same polynomial applied to the incoming
gradient: nothing is kept from the forward pass, nothing is transposed and no
stack of layers is ever stored.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.data.interactions import Interactions

CPU_COLUMN_BLOCK = 64
"""On CPUs this many columns go through all layers together: a block of the table then
stays in cache, which is worth a factor of two (see results/propagation.json)."""


class Graph(nn.Module):
    """The normalised adjacency Â of training edges: CSR, users first, then items.

    A node without edges keeps 1/(L+1) of its vector. On CPUs results are the
    same bit by bit in every run; on GPUs they are not: the product is
    cuSPARSE's, which was seen to differ in the last bits between runs and is
    four times as fast as a reproducible one.
    """

    def __init__(self, train: Interactions) -> None:
        super().__init__()
        self.num_nodes = train.num_users + train.num_items
        # Interactions are sorted by user, then item: the upper half of the rows as they stand.
        by_item = np.argsort(train.item, kind="stable")
        columns = np.concatenate([train.item + np.int64(train.num_users), train.user[by_item]])
        degree = np.concatenate([np.diff(train.user_offsets), train.item_counts])
        offsets = np.concatenate([[0], np.cumsum(degree)])
        values = 1 / np.sqrt(np.repeat(degree, degree) * degree[columns])
        index = np.int32 if len(columns) <= np.iinfo(np.int32).max else np.int64
        self.register_buffer("offsets", torch.from_numpy(offsets.astype(index)), persistent=False)
        self.register_buffer("columns", torch.from_numpy(columns.astype(index)), persistent=False)
        self.register_buffer(
            "values", torch.from_numpy(values.astype(np.float32)), persistent=False
        )
        self.offsets: Tensor
        self.columns: Tensor
        self.values: Tensor

    def propagate(self, table: Tensor, layers: int) -> Tensor:
        """``p(Â) table``, differentiable in the table."""
        result: Tensor = _Propagate.apply(table, self, layers)  # type: ignore[no-untyped-call]
        return result

    def polynomial(self, table: Tensor, layers: int) -> Tensor:
        """``p(Â) table`` by Horner's rule: y ← table + Â y, L times."""
        times_plus = self.times_plus_csr if table.is_cuda else self.times_plus_bags
        width = table.shape[1] if table.is_cuda else CPU_COLUMN_BLOCK
        result = torch.empty_like(table)
        for block, into in zip(
            torch.split(table, width, dim=1), torch.split(result, width, dim=1), strict=True
        ):
            constant = block.contiguous()
            power = constant
            for _ in range(layers):
                power = times_plus(power, constant)
            torch.div(power, layers + 1, out=into)
        return result

    def times_plus_csr(self, table: Tensor, addend: Tensor) -> Tensor:
        """``Â table + addend`` by the vendor's sparse product."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse (CSR|invariant)", UserWarning)
            adjacency = torch.sparse_csr_tensor(
                self.offsets,
                self.columns,
                self.values.to(table.dtype),
                (self.num_nodes, self.num_nodes),
                check_invariants=False,
            )
        return torch.addmm(addend, adjacency, table)

    def times_plus_bags(self, table: Tensor, addend: Tensor) -> Tensor:
        """``Â table + addend`` with each row a weighted sum of embedding rows."""
        product = F.embedding_bag(
            self.columns,
            table,
            self.offsets,
            mode="sum",
            per_sample_weights=self.values.to(table.dtype),
            include_last_offset=True,
        )
        return product.add_(addend)


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, graph: Graph, layers: int) -> Tensor:
        ctx.graph, ctx.layers = graph, layers
        return graph.polynomial(table, layers)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.graph.polynomial(grad, ctx.layers), None, None
