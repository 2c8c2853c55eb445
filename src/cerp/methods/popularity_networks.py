"""What AutoEmb and ESAPN share: users and items apart, and networks that look at popularity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.errors import ConfigError, DataError
from cerp.models.layers import BatchNorm, linear

POPULARITY_BUCKETS = 1024
BUCKETS_PER_DOUBLING = 32
POPULARITY_DIM = 32
HIDDEN_WIDTH = 512


@dataclass(frozen=True, eq=False)
class Sides:
    """Which of some rows belong to users and which to items.

    How many there are of each is known to the host, so that splitting and joining
    rows, and their gradients, never wait for the device.
    """

    users: int
    """How many rows belong to users."""
    items: int
    """And how many to items."""
    order: Tensor | None = None
    """The places of the users' rows, then those of the items'; None: users come first anyway."""

    @classmethod
    def of(cls, ids: Tensor, num_users: int) -> Sides:
        """The sides of entities (n,) in any order; counting them waits for the device."""
        is_item = ids >= num_users
        items = int(is_item.sum())
        return cls(len(ids) - items, items, torch.argsort(is_item, stable=True))

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The rows (n, *) of users and those of items, each in the order they come in."""
        ordered = rows if self.order is None else rows.index_select(0, self.order)
        of_users, of_items = torch.split(ordered, [self.users, self.items])
        return of_users, of_items

    def join(self, of_users: Tensor, of_items: Tensor) -> Tensor:
        """The inverse of `split`."""
        ordered = torch.cat([of_users, of_items])
        if self.order is None:
            return ordered
        return torch.empty_like(ordered).index_copy(0, self.order, ordered)


class BySide(nn.Module):
    """Two modules of one kind: the first for users, the second for items."""

    def __init__(self, users: nn.Module, items: nn.Module) -> None:
        super().__init__()
        self.users, self.items = users, items

    def forward(self, sides: Sides, *inputs: Tensor) -> Tensor:
        """Each row of the inputs through the module of its side: (n,), (n, *), ... ."""
        of_users, of_items = zip(*map(sides.split, inputs), strict=True)
        return sides.join(self.users(*of_users), self.items(*of_items))


class Controller(nn.Module):
    """``A₂ tanh(BN(A₁ [BN(pop(f)); state]))``: scores of choices, from popularity and state.

    f is a bucket of `popularity_buckets`, pop a learned vector for each.
    """

    def __init__(self, state: int, choices: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.popularity = nn.Parameter(torch.empty(POPULARITY_BUCKETS, POPULARITY_DIM))
        nn.init.xavier_uniform_(self.popularity, generator=generator)
        self.popularity_norm = BatchNorm(POPULARITY_DIM)
        self.hidden = linear(POPULARITY_DIM + state, HIDDEN_WIDTH, generator)
        self.hidden_norm = BatchNorm(HIDDEN_WIDTH)
        self.output = linear(HIDDEN_WIDTH, choices, generator)

    def forward(self, buckets: Tensor, state: Tensor) -> Tensor:
        """Scores (n, choices) from popularity buckets (n,) and states (n, m)."""
        popularity = self.popularity_norm(F.embedding(buckets, self.popularity))
        hidden = self.hidden(torch.cat([popularity, state], dim=1))
        scores: Tensor = self.output(torch.tanh(self.hidden_norm(hidden)))
        return scores


def popularity_buckets(degrees: npt.NDArray[np.integer[Any]], num_embeddings: int) -> Tensor:
    """``min(⌊32·log₂(1 + f)⌋, 1023)`` of the training degree f of every entity.

    Up to a degree of 45 every degree has a bucket of its own; beyond, 32 share a doubling.
    The original code gives every frequency its own vector.
    """
    if degrees.shape != (num_embeddings,) or degrees.min() < 0:
        raise DataError(
            f"degrees must hold a number of interactions for each of the {num_embeddings:,} "
            "entities, users first"
        )
    buckets = np.floor(BUCKETS_PER_DOUBLING * np.log2(1.0 + degrees))
    return torch.from_numpy(np.minimum(buckets, POPULARITY_BUCKETS - 1).astype(np.int64))


def check_sides(num_users: int, num_embeddings: int) -> None:
    """Refuse a number of users that leaves no users or no items."""
    if not 0 < num_users < num_embeddings:
        raise ConfigError(
            f"num_users must leave users and items among {num_embeddings:,} entities, "
            f"got {num_users}"
        )
