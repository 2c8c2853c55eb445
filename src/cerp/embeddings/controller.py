"""What AutoEmb and ESAPN share: users and items apart, and networks that look at popularity."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.errors import ConfigError, DataError
from cerp.layers import BatchNorm, linear

POPULARITY_BUCKETS = 1024
BUCKETS_PER_DOUBLING = 32
POPULARITY_DIM = 32
HIDDEN_WIDTH = 512


class BySide(nn.Module):
    """Two modules of one kind: the first for users, the second for items."""

    def __init__(self, num_users: int, users: nn.Module, items: nn.Module) -> None:
        super().__init__()
        self.num_users, self.users, self.items = num_users, users, items

    def forward(self, ids: Tensor, *inputs: Tensor) -> Tensor:
        """Each row of the inputs through the module of its entity's side: (n,), (n, *), ... ."""
        is_user = ids < self.num_users
        of_users = self.users(*(rows[is_user] for rows in inputs))
        of_items = self.items(*(rows[~is_user] for rows in inputs))
        result: Tensor = of_users.new_empty(len(ids), *of_users.shape[1:])
        result[is_user], result[~is_user] = of_users, of_items
        return result


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
