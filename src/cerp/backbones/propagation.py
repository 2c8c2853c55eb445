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
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from cerp.data.interactions import Interactions

CPU_COLUMN_BLOCK = 64
"""On CPUs this many columns go through all layers together: a block of the table then
stays in cache, which is worth a factor of two (see results/propagation.json)."""


class Graph:
    """The normalised adjacency of training edges: CSR, users first, then items."""

    def __init__(self, train: Interactions, device: torch.device | str = "cpu") -> None:
        self.num_nodes = train.num_users + train.num_items
        user, item = train.user.astype(np.int64), train.item + np.int64(train.num_users)
        rows, columns = np.concatenate([user, item]), np.concatenate([item, user])
        order = np.argsort(rows, kind="stable")
        rows, columns = rows[order], columns[order]
        degree = np.bincount(rows, minlength=self.num_nodes)
        values = 1 / np.sqrt(degree[rows] * degree[columns])
        offsets = np.concatenate([[0], np.cumsum(degree)])
        self.offsets = torch.from_numpy(offsets.astype(np.int32)).to(device)
        self.columns = torch.from_numpy(columns.astype(np.int32)).to(device)
        self.values = torch.from_numpy(values.astype(np.float32)).to(device)
        self._csr = self._sparse_tensor() if self.values.is_cuda else None

    def _sparse_tensor(self) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse (CSR|invariant)", UserWarning)
            return torch.sparse_csr_tensor(
                self.offsets, self.columns, self.values, (self.num_nodes, self.num_nodes)
            )

    def propagate(self, table: Tensor, layers: int) -> Tensor:
        """``p(Â) table``, differentiable in the table."""
        result: Tensor = _Propagate.apply(table, self, layers)
        return result

    def polynomial(self, table: Tensor, layers: int) -> Tensor:
        """``p(Â) table`` by Horner's rule: y ← table + Â y, L times."""
        if table.is_cuda or table.shape[1] <= CPU_COLUMN_BLOCK:
            return self._horner(table.contiguous(), layers)
        blocks = table.split(CPU_COLUMN_BLOCK, dim=1)
        return torch.cat([self._horner(block.contiguous(), layers) for block in blocks], dim=1)

    def _horner(self, table: Tensor, layers: int) -> Tensor:
        result = table
        for _ in range(layers):
            result = self._times_plus(result, table)
        return result / (layers + 1)

    def _times_plus(self, table: Tensor, addend: Tensor) -> Tensor:
        """``Â table + addend``: the vendor's sparse product on GPUs, `embedding_bag` on CPUs."""
        if self._csr is not None:
            return torch.addmm(addend, self._csr, table)
        return addend + F.embedding_bag(
            self.columns,
            table,
            self.offsets,
            mode="sum",
            per_sample_weights=self.values,
            include_last_offset=True,
        )


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, graph: Graph, layers: int) -> Tensor:
        ctx.graph, ctx.layers = graph, layers
        return graph.polynomial(table, layers)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.graph.polynomial(grad, ctx.layers), None, None
