"""ESAPN's embedding: every entity has one of several sizes, and sizes only ever grow.

Who grows is decided by the policy in `cerp.methods.esapn.policy`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.errors import BudgetError, ConfigError, DataError
from cerp.methods.popularity_networks import BySide, Sides, check_sides
from cerp.models.embeddings.base import Cost, Embedding, checked_ids
from cerp.models.layers import BatchNorm, linear, track_averages

SIZES = (2, 4, 8, 16, 32)
"""The original has 2, 4, 8, 16, 64 and 128, with which 90% is soon used up; CERP's authors took
smaller ones and do not say which."""


class GrowingEmbedding(Embedding):
    """``e_k = tanh(BN(T_{n−1} ··· T_g E^(g)_k))``, g the size of entity k (Liu et al., SIGIR 2020).

    There is a table E^(j) of N x d_j values for each of the ``sizes`` d_1 < ... <
    d_n, but an entity has a vector in one of them only, that of its level g; linear
    maps T_j take size j to the next. Users and items have maps of their own.
    Vectors have the largest size, d_n.

    `enlarge` moves entities up one level, ``E^(g+1)_k ← T_g E^(g)_k``, as long
    as at most ``limit`` values are in use: the budget is approached from
    below. `enlarged` does so for a while and takes it back to the last bit.
    After the search, a fresh embedding is built with its ``levels`` and
    trained.

    Where we differ: in the original code the backup of `enlarged` is an alias,
    so that trials persist. Every size is normalised there over all
    entities of a batch, those of other sizes included; here an entity is
    normalised as what it is. The limit and the retraining are ours.
    """

    levels: Tensor
    _sizes: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        num_users: int,
        sizes: tuple[int, ...] = SIZES,
        limit: int | None = None,
        levels: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        check_sides(num_users, num_embeddings)
        if len(sizes) < 2 or sizes[0] < 1 or any(a >= b for a, b in pairwise(sizes)):
            raise ConfigError(f"ESAPN needs two or more sizes, the smallest first, got {sizes}")
        if sizes[-1] != embedding_dim:
            raise ConfigError(
                f"ESAPN's vectors have the largest of their sizes {sizes}, not {embedding_dim} "
                "entries"
            )
        self.sizes, self.num_users = sizes, num_users
        self.limit = num_embeddings * sizes[-1] if limit is None else limit
        self.tables = nn.ParameterList(torch.empty(num_embeddings, size) for size in sizes)
        for table in self.tables:
            nn.init.xavier_uniform_(table, generator=generator)
        self.maps = BySide(*(_Maps(sizes, generator) for _ in range(2)))
        self.register_buffer("levels", self._checked(levels))
        # The sizes where the levels are, to be looked up without waiting for the device.
        self.register_buffer("_sizes", torch.tensor(sizes), persistent=False)

    @classmethod
    def for_limit(
        cls,
        num_embeddings: int,
        embedding_dim: int,
        limit: int,
        *,
        padding_idx: int | None = None,
        num_users: int,
        sizes: tuple[int, ...] = SIZES,
        levels: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> GrowingEmbedding:
        """Vectors of the largest size that is no larger than ``embedding_dim``.

        Without ``levels`` all entities have the smallest size, from which they
        may grow until ``limit`` values are in use.
        """
        smallest = num_embeddings * sizes[0]
        if limit < smallest:
            raise BudgetError(
                f"a budget of {limit:,} values is too small for ESAPN, whose smallest size is "
                f"{sizes[0]}: the smallest possible budget is {smallest:,}"
            )
        fitting = tuple(size for size in sizes if size <= embedding_dim)
        return cls(
            num_embeddings,
            fitting[-1] if fitting else embedding_dim,
            padding_idx,
            num_users=num_users,
            sizes=fitting,
            limit=limit,
            levels=levels,
            generator=generator,
        )

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        flat = checked_ids(ids).reshape(-1).long()
        rows = [F.embedding(flat, table) for table in self.tables]
        vectors = self.maps(Sides.of(flat, self.num_users), self.levels[flat], *rows)
        return self._zero_padding(vectors.view(*ids.shape, self.embedding_dim), ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        sides = Sides(self.num_users, self.num_embeddings - self.num_users)
        return self._zero_padding(self.maps(sides, self.levels, *self.tables))

    def growth(self, ids: Tensor) -> Tensor:
        """``d_{g+1} − d_g``: the values that enlarging adds; 0 at the largest size."""
        return self._sizes.diff(append=self._sizes[-1:])[self.levels[ids]]

    def can_grow(self, ids: Tensor) -> Tensor:
        """Whether each entity has a larger size, and the budget room for it."""
        growth = self.growth(ids)
        return (growth > 0) & (growth <= self._room())

    @torch.no_grad()
    def enlarge(self, ids: Tensor) -> Tensor:
        """One level up for distinct ids, the first ones first, while the budget lasts.

        Returns those that grew.
        """
        growth = self.growth(ids)
        grows = (growth > 0) & (growth.cumsum(0) <= self._room())
        self._move_up(ids, grows)
        return ids[grows]

    @contextmanager
    def enlarged(self, ids: Tensor) -> Iterator[None]:
        """A trial: distinct ids that `can_grow`, each by itself, are one level up inside.

        Nothing is left of it, nor of what training notes of averages in it.
        """
        levels = self.levels[ids]
        with torch.no_grad():
            rows = [table[ids] for table in self.tables]  # indexing with ids copies
            self._move_up(ids, self.can_grow(ids))
        track_averages(self.maps, tracks=False)
        try:
            yield
        finally:
            track_averages(self.maps, tracks=True)
            with torch.no_grad():
                self.levels[ids] = levels
                for table, former in zip(self.tables, rows, strict=True):
                    table[ids] = former

    @property
    def nnz(self) -> int:
        """``Σ_k d_{g_k}``: each entity's values in the table of its size."""
        return int(self._values())

    def cost(self) -> Cost:
        """``Σ_k d_{g_k}``; and with the maps and their normalisation."""
        maps = sum(parameter.numel() for parameter in self.maps.parameters())
        return Cost(self.nnz, self.nnz + maps)

    def _values(self) -> Tensor:
        """`nnz` on the device: nothing waits for it."""
        return self._sizes[self.levels].sum()

    def _room(self) -> Tensor:
        """The values that the limit still allows."""
        return self.limit - self._values()

    def _move_up(self, ids: Tensor, moves: Tensor) -> None:
        """One level up for those of distinct ids that move.

        Both sides' maps of all levels see all rows, and the right results are
        kept: ids are few, and to pick out rows would wait for the device each time.
        """
        users, items = self.maps.users, self.maps.items
        assert isinstance(users, _Maps)
        assert isinstance(items, _Maps)
        levels, is_user = self.levels[ids], (ids < self.num_users)[:, None]
        for level, (smaller, larger) in enumerate(pairwise(self.tables)):
            rows = smaller[ids]
            mapped = torch.where(is_user, users.steps[level](rows), items.steps[level](rows))
            arrives = (moves & (levels == level))[:, None]
            larger[ids] = torch.where(arrives, mapped, larger[ids])
        self.levels[ids] = levels + moves

    def _checked(self, levels: Tensor | None) -> Tensor:
        if levels is None:
            return torch.zeros(self.num_embeddings, dtype=torch.int64)
        if levels.shape != (self.num_embeddings,) or not (
            0 <= int(levels.min()) <= int(levels.max()) < len(self.sizes)
        ):
            raise DataError(
                f"levels must hold one of 0..{len(self.sizes) - 1} for each of the "
                f"{self.num_embeddings:,} entities"
            )
        return levels.to(torch.int64).clone()


class _Maps(nn.Module):
    """``tanh(BN(T_{n−1} ··· T_g row))`` for rows of any size."""

    def __init__(self, sizes: tuple[int, ...], generator: torch.Generator | None) -> None:
        super().__init__()
        self.steps = nn.ModuleList(linear(*pair, generator) for pair in pairwise(sizes))
        self.norm = BatchNorm(sizes[-1])

    def forward(self, levels: Tensor, first: Tensor, *others: Tensor) -> Tensor:
        """Vectors from levels (n,) and the rows (n, d_j) of all tables."""
        vectors = first
        for level, (step, own) in enumerate(zip(self.steps, others, strict=True), start=1):
            # What comes from below is overwritten where the entity has a row of this size.
            vectors = torch.where((levels == level)[:, None], own, step(vectors))
        return torch.tanh(self.norm(vectors))
