"""AutoEmb: several sizes for every entity, mixed by what a controller makes of its popularity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.errors import BudgetError, ConfigError
from cerp.methods.popularity_networks import (
    BySide,
    Controller,
    Sides,
    check_sides,
    popularity_buckets,
)
from cerp.models.embeddings.base import Cost, Embedding, checked_ids
from cerp.models.layers import BatchNorm, linear, track_averages

SMALLEST_TOTAL = 6
"""Sizes 1, 2 and 3."""


class AutoEmbedding(Embedding):
    """``e_k = Σ_j α_kj · tanh(BN(W_j e_k^(j) + c_j))`` (Zhao et al., 2020).

    Entity k has a row of Σ d_j values, cut into parts e^(j) of the ``sizes``
    d_1 < d_2 < ...; W_j takes part j to the common dimension. The mixing weights
    are ``α_k = softmax(controller(f_k, α_k'))`` with the entity's training
    degree f_k and its last weights α_k', at first all on the smallest size.
    Users and items have maps and a controller each.

    Two groups of parameters learn in turn, each on its own data and with the
    other one at rest (first-order DARTS):

    - `model_parameters`, with the backbone, on training batches: the usual loss;
    - `controller_parameters` on validation batches: the same loss inside
      ``with embedding.controllers_learning()``.

    After each step on training data `remember` keeps the weights of its
    entities; `refresh` computes those of all entities, for evaluation, which
    uses the weights kept. The mix stays soft: all sizes are needed to the end,
    and there is no retraining.

    Where we differ: the released code (a baseline in ESAPN's) streams, and
    validates on the previous batch. It has one normalisation for all sizes
    of a side, whose running averages then fit none of them in evaluation; here
    each size has its own. Its prior on α has weight 0 and is left out.
    """

    popularity: Tensor
    alpha: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        num_users: int,
        degrees: npt.NDArray[np.integer[Any]],
        sizes: tuple[int, ...] = (1, 4, 8),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        check_sides(num_users, num_embeddings)
        if len(sizes) < 2 or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
            raise ConfigError(f"AutoEmb mixes two or more sizes, the smallest first, got {sizes}")
        self.sizes, self.num_users = sizes, num_users
        self.weight = nn.Parameter(torch.empty(num_embeddings, sum(sizes)))
        nn.init.xavier_uniform_(self.weight, generator=generator)
        self.parts = BySide(*(_Parts(sizes, embedding_dim, generator) for _ in range(2)))
        choices = len(sizes)
        self.controllers = BySide(*(Controller(choices, choices, generator) for _ in range(2)))
        self.register_buffer("popularity", popularity_buckets(degrees, num_embeddings))
        alpha = torch.zeros(num_embeddings, choices)
        alpha[:, 0] = 1
        self.register_buffer("alpha", alpha)
        self._controllers_learn = False
        track_averages(self.controllers, tracks=False)

    @classmethod
    def for_limit(
        cls,
        num_embeddings: int,
        embedding_dim: int,
        limit: int,
        *,
        padding_idx: int | None = None,
        num_users: int,
        degrees: npt.NDArray[np.integer[Any]],
        generator: torch.Generator | None = None,
    ) -> AutoEmbedding:
        """With `sizes_within` ⌊t / N⌋ values for each entity."""
        return cls(
            num_embeddings,
            embedding_dim,
            padding_idx,
            num_users=num_users,
            degrees=degrees,
            sizes=sizes_within(limit, num_embeddings),
            generator=generator,
        )

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        flat = checked_ids(ids).reshape(-1).long()
        vectors = self._mixed(
            Sides.of(flat, self.num_users),
            F.embedding(flat, self.weight),
            self.popularity[flat],
            self.alpha[flat],
        )
        return self._zero_padding(vectors.view(*ids.shape, self.embedding_dim), ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        sides = Sides(self.num_users, self.num_embeddings - self.num_users)
        return self._zero_padding(self._mixed(sides, self.weight, self.popularity, self.alpha))

    def mixing_weights(self, ids: Tensor) -> Tensor:
        """α of ids (n,) by the controllers, (n, sizes); the rows add up to 1."""
        sides = Sides.of(ids, self.num_users)
        return self._mixing_weights(sides, self.popularity[ids], self.alpha[ids])

    @torch.no_grad()
    def remember(self, ids: Tensor) -> None:
        """Keep the weights that the controllers now give to ids (n,)."""
        self.alpha[ids] = self.mixing_weights(ids)

    def refresh(self) -> None:
        """`remember` all entities: those that no batch had would be judged by stale weights."""
        self.remember(torch.arange(self.num_embeddings, device=self.weight.device))

    def controller_parameters(self) -> list[nn.Parameter]:
        """What learns on validation batches."""
        return list(self.controllers.parameters())

    def model_parameters(self) -> list[nn.Parameter]:
        """What learns on training batches, together with the backbone."""
        return [self.weight, *self.parts.parameters()]

    @contextmanager
    def controllers_learning(self) -> Iterator[None]:
        """Gradients reach the controllers alone, and the rest keeps its running averages."""
        self._controllers_learn = True
        track_averages(self.controllers, tracks=True)
        track_averages(self.parts, tracks=False)
        try:
            yield
        finally:
            self._controllers_learn = False
            track_averages(self.controllers, tracks=False)
            track_averages(self.parts, tracks=True)

    @property
    def nnz(self) -> int:
        """``N·Σ d_j``: soft mixing needs all sizes."""
        return self.weight.numel()

    def cost(self) -> Cost:
        """``N·Σ d_j``; and with α of every entity, the maps and the controllers."""
        learned = sum(parameter.numel() for parameter in self.parameters())
        return Cost(self.nnz, learned + self.alpha.numel())

    def _mixed(self, sides: Sides, rows: Tensor, popularity: Tensor, alpha: Tensor) -> Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self._controllers_learn):
            parts = self.parts(sides, rows)
        if self.training:
            with torch.set_grad_enabled(torch.is_grad_enabled() and self._controllers_learn):
                alpha = self._mixing_weights(sides, popularity, alpha)
        return torch.einsum("nj,njd->nd", alpha, parts)

    def _mixing_weights(self, sides: Sides, popularity: Tensor, alpha: Tensor) -> Tensor:
        return torch.softmax(self.controllers(sides, popularity, alpha), dim=1)


class _Parts(nn.Module):
    """``z^(j) = tanh(BN_j(W_j e^(j) + c_j))`` for all j: (n, Σ d_j) to (n, sizes, d)."""

    def __init__(
        self, sizes: tuple[int, ...], embedding_dim: int, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.sizes = sizes
        self.maps = nn.ModuleList(linear(size, embedding_dim, generator) for size in sizes)
        self.norms = nn.ModuleList(BatchNorm(embedding_dim) for _ in sizes)

    def forward(self, rows: Tensor) -> Tensor:
        parts = torch.split(rows, list(self.sizes), dim=1)
        mapped = [
            norm(map_(part)) for norm, map_, part in zip(self.norms, self.maps, parts, strict=True)
        ]
        return torch.tanh(torch.stack(mapped, dim=1))


def sizes_within(limit: int, num_embeddings: int) -> tuple[int, int, int]:
    """Three sizes that add up to ``⌊t / N⌋``, as near as may be to 1 : 4 : 8.

    {1, 4, 8} is a set with the sum of 13 that CERP's authors report. They do
    not say which one they took, and at 90% on Gowalla 13 would be too many.
    """
    total = limit // num_embeddings
    if total < SMALLEST_TOTAL:
        raise BudgetError(
            f"a budget of {limit:,} values is too small for AutoEmb, which needs three sizes "
            f"for each of {num_embeddings:,} entities: the smallest possible budget is "
            f"{SMALLEST_TOTAL * num_embeddings:,}"
        )
    small = max(total // 13, 1)
    middle = max(4 * total // 13, small + 1)
    return small, middle, total - small - middle
