"""CERP's embedding: every vector is the sum of one row from each of two pruned codebooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.embeddings.base import Embedding
from cerp.embeddings.hashing import Hash, HashName
from cerp.errors import ConfigError
from cerp.pruning import margin, pruning_penalty, soft_threshold, top_mask


class CompositionalEmbedding(Embedding):
    """``e_k = P̂[k_p] + Q̂[k_q]``, usable where an ``nn.Embedding`` stood.

    One parameter ``weight`` holds P above Q, so that pruning looks at both
    codebooks together. The module is in one of three states:

    - dense: Ŵ = W;
    - pruning (after `start_pruning`): Ŵ = sign(W)·relu(|W| − σ(S + shift));
    - masked (after `project` or `freeze`): Ŵ = W·mask, and the mask never changes.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        buckets: int,
        *,
        hash_name: HashName = "balanced",
        padding_idx: int | None = None,
        positions: npt.NDArray[np.int32] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ConfigError(f"padding_idx {padding_idx} is outside {num_embeddings} embeddings")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.hash = Hash(hash_name, num_embeddings, buckets)
        self.num_rows = sum(self.hash.rows)
        self.weight = nn.Parameter(torch.empty(self.num_rows, embedding_dim))
        self.threshold: nn.Parameter | None = None
        self.register_buffer("shift", torch.zeros(()))
        self.register_buffer("mask", None)
        self.register_buffer(
            "positions", None if positions is None else torch.from_numpy(positions.copy())
        )
        self.shift: Tensor
        self.mask: Tensor | None
        self.positions: Tensor | None
        self._reverse: tuple[Tensor, Tensor, Tensor, Tensor] | None = None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Xavier-uniform codebooks, each by its own shape."""
        for codebook in self.codebooks(self.weight.data):
            nn.init.xavier_uniform_(codebook, generator=generator)

    def codebooks(self, stacked: Tensor) -> tuple[Tensor, Tensor]:
        """The P and the Q part of something shaped like `weight`."""
        rows_p, rows_q = self.hash.rows
        upper, lower = stacked.split([rows_p, rows_q])
        return upper, lower

    def effective_weight(self) -> Tensor:
        """Ŵ: the codebooks as lookups see them."""
        if self.threshold is not None:
            return soft_threshold(self.weight, self.threshold + self.shift)
        return self.weight if self.mask is None else self.weight * self.mask

    def rows_of(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of `weight` that make up the vectors of ids: k_p and |P| + k_q."""
        k = ids if self.positions is None else self.positions[ids]
        row_p, row_q = self.hash(k)
        return row_p, row_q + self.hash.rows[0]

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        weight = self.effective_weight()
        row_p, row_q = self.rows_of(ids)
        vectors = F.embedding(row_p, weight) + F.embedding(row_q, weight)
        if self.padding_idx is not None:
            vectors = vectors.masked_fill((ids == self.padding_idx).unsqueeze(-1), 0.0)
        return vectors

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        vectors = _SumOfRows.apply(self.effective_weight(), *self._table_rows())
        if self.padding_idx is None:
            return vectors
        keep = torch.ones(self.num_embeddings, 1, device=vectors.device)
        keep[self.padding_idx] = 0
        return vectors * keep

    def _table_rows(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows of every id, and the reverse: the ids that use each row."""
        if self._reverse is None or self._reverse[0].device != self.weight.device:
            ids = torch.arange(self.num_embeddings, device=self.weight.device)
            row_p, row_q = self.rows_of(ids)
            rows = torch.cat([row_p, row_q])
            users_of_rows = torch.sort(rows, stable=True).indices % self.num_embeddings
            counts = torch.bincount(rows, minlength=self.num_rows)
            offsets = F.pad(counts.cumsum(0), (1, 0))
            self._reverse = (row_p, row_q, users_of_rows, offsets)
        return self._reverse


class _SumOfRows(torch.autograd.Function):
    """``out[k] = w[p[k]] + w[q[k]]`` for all k; the gradient sums each row's users in a fixed
    order, so it is fast on CPUs and reproducible on GPUs."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, p: Tensor, q: Tensor, users: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(users, offsets)
        return weight[p] + weight[q]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        users, offsets = ctx.saved_tensors
        summed = F.embedding_bag(
            users, grad.contiguous(), offsets, mode="sum", include_last_offset=True
        )
        return summed, None, None, None, None
