"""ESAPN's policy: which entities are to grow, learned from whether growing lowers their loss.

A *policy step* looks at a validation batch: `policy_loss` samples actions,
tries them, compares the losses with those of before and takes all of it back.
A *model step* looks at a training batch: `grow` enlarges whom the policy
prefers to, the model learns as usual, and `LossHistory.append` notes the
losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.methods.esapn.embedding import GrowingEmbedding
from cerp.methods.popularity_networks import BySide, Controller, Sides, popularity_buckets

KEEP, ENLARGE = 0, 1


class SizePolicy(nn.Module):
    """``π(a | k) = softmax(controller(f_k, onehot(g_k)))``, a either keep or enlarge.

    One controller for users and one for items. Enlarging has probability 0
    where it is not possible, so that such an entity has no say in what the
    policy learns (in the original code a forced "keep" has).
    """

    popularity: Tensor

    def __init__(
        self,
        num_users: int,
        num_sizes: int,
        degrees: npt.NDArray[np.integer[Any]],
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.num_users, self.num_sizes = num_users, num_sizes
        self.controllers = BySide(*(Controller(num_sizes, 2, generator) for _ in range(2)))
        self.register_buffer("popularity", popularity_buckets(degrees, len(degrees)))

    def forward(self, ids: Tensor, embedding: GrowingEmbedding) -> Tensor:
        """``log π``, (n, 2), of ids (n,)."""
        state = F.one_hot(embedding.levels[ids], self.num_sizes).float()
        scores = self.controllers(Sides.of(ids, self.num_users), self.popularity[ids], state)
        impossible = torch.zeros_like(scores, dtype=torch.bool)
        impossible[:, ENLARGE] = ~embedding.can_grow(ids)
        return torch.log_softmax(scores.masked_fill(impossible, -torch.inf), dim=1)


class EntityLosses(NamedTuple):
    """A loss for each of some distinct entities."""

    ids: Tensor
    losses: Tensor


class PairEntities(NamedTuple):
    """The distinct entities of B pairs of a user and an item."""

    ids: Tensor
    """(n,), ascending."""
    rows: Tensor
    """(2B,): the row in ``ids`` of each user, then of each item."""
    counts: Tensor
    """(n,): how often each occurs."""

    @classmethod
    def of(cls, users: Tensor, items: Tensor) -> PairEntities:
        """Both are entities, (B,), the items behind the users."""
        both = torch.cat([users, items])
        return cls(*torch.unique(both, return_inverse=True, return_counts=True))

    def mean_losses(self, losses: Tensor) -> EntityLosses:
        """From losses of the pairs, (B,): a loss counts for its user and for its item."""
        sums = losses.new_zeros(len(self.ids)).index_add_(0, self.rows, torch.cat([losses, losses]))
        return EntityLosses(self.ids, sums / self.counts)


def ranking_losses(scores: Tensor) -> Tensor:
    """``ℓ_b = mean_j (1 − σ(y_b0 − y_bj))`` in [0, 1], (B,): column 0 holds the positives.

    The original's loss is bounded; BPR is not, and its tail would drown the rewards.
    """
    return torch.sigmoid(scores[:, 1:] - scores[:, :1]).mean(dim=1)


class LossHistory(nn.Module):
    """The last T losses of every entity; a reward is how far a new one is below their mean."""

    losses: Tensor
    counts: Tensor

    def __init__(self, num_entities: int, length: int = 5) -> None:
        super().__init__()
        self.register_buffer("losses", torch.zeros(num_entities, length))
        self.register_buffer("counts", torch.zeros(num_entities, dtype=torch.int64))

    def append(self, found: EntityLosses) -> None:
        """Note a loss for each entity; the oldest of more than T goes."""
        places = self.counts[found.ids] % self.losses.shape[1]
        self.losses[found.ids, places] = found.losses.detach().to(self.losses.dtype)
        self.counts[found.ids] += 1

    def rewards(self, found: EntityLosses) -> Tensor:
        """``R_k = mean of k's last losses − ℓ_k``; 0 for entities without a history."""
        filled = self.counts[found.ids].clamp(max=self.losses.shape[1])
        means = self.losses[found.ids].sum(dim=1) / filled.clamp(min=1)
        return torch.where(filled > 0, means - found.losses, 0.0)


def policy_loss(
    policy: SizePolicy,
    embedding: GrowingEmbedding,
    history: LossHistory,
    users: Tensor,
    items: Tensor,
    judge: Callable[[], Tensor],
    generator: torch.Generator | None = None,
) -> Tensor:
    """``−Σ_k log π(a_k)·R_k`` over the entities of a batch, with actions a_k drawn from π.

    Users and positive items are entities, (B,); ``judge`` gives the loss of each
    of these pairs with the embedding as it is when called, inside the trial.
    Afterwards the embedding is as before.
    """
    entities = PairEntities.of(users, items)
    ids = entities.ids
    log_policy = policy(ids, embedding)
    draws = torch.rand(len(ids), generator=generator, device=ids.device)
    enlarges = draws < log_policy.detach()[:, ENLARGE].exp()
    with torch.no_grad(), embedding.enlarged(ids[enlarges]):
        rewards = history.rewards(entities.mean_losses(judge()))
    chosen = torch.where(enlarges, log_policy[:, ENLARGE], log_policy[:, KEEP])
    return -(chosen * rewards).sum()


@torch.no_grad()
def grow(policy: SizePolicy, embedding: GrowingEmbedding, ids: Tensor) -> Tensor:
    """Enlarge for good those of distinct ids that the policy prefers to; returns them.

    The clearest cases first, so that the last room in the budget goes to them.
    """
    keep, enlarge = policy(ids, embedding).unbind(dim=1)
    order = torch.argsort(enlarge - keep, descending=True, stable=True)
    return embedding.enlarge(ids[order[(enlarge > keep)[order]]])
