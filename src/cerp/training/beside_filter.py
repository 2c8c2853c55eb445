"""Vectors that are trained with the graph filter in their scores.

    score(u, i) = head(z_u, z_i) + β · log(ε + F(u, i) / max F(u, ·)),  β = exp(b), b learned

What the filter gives a pair is looked up in a sorted list and counts as 0 where it has none.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cerp.data.ids import Int32Array, Int64Array
from cerp.models.backbones.base import BatchOutput, TorchScorer
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender

START = 4.0
"""Of β: the filter decides nearly all pairs at first, and vectors learn what it does not know."""
EPSILON = 0.01
BETA_RATE = 1e-2
"""Learning rate of b."""


class FilterPairs(nn.Module):
    """What the filter gives pairs of user and item.

    Parameters
    ----------
    keys
        user · num_items + item, ascending.
    values
        ``F / max F`` of each, in half precision.
    num_items
        Columns of the scores.

    """

    keys: Tensor
    values: Tensor

    def __init__(self, keys: Int64Array, values: npt.NDArray[np.float16], num_items: int) -> None:
        super().__init__()
        self.num_items = num_items
        # The last pair is nobody's: every search ends within the list.
        end = np.iinfo(np.int64).max
        self.register_buffer("keys", torch.from_numpy(np.append(keys, end)), persistent=False)
        padded = np.append(values, np.float16(0))
        self.register_buffer("values", torch.from_numpy(padded), persistent=False)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """``log(ε + F / max F)`` of pairs, in the shape of both together."""
        wanted = users * self.num_items + items
        places = torch.searchsorted(self.keys, wanted)
        found = self.keys[places] == wanted
        return (EPSILON + self.values[places].float() * found).log()

    def of_users(self, users: Tensor) -> Tensor:
        """The same of all items, (len(users), num_items)."""
        starts, ends = (
            torch.searchsorted(self.keys, (users + more) * self.num_items) for more in (0, 1)
        )
        counts = ends - starts
        rows = torch.repeat_interleave(counts)
        before = counts.cumsum(0) - counts
        places = torch.arange(len(rows), device=rows.device) + (starts - before)[rows]
        share = torch.zeros((len(users), self.num_items), device=rows.device)
        share[rows, self.keys[places] - users[rows] * self.num_items] = self.values[places].float()
        return share.add_(EPSILON).log_()


class BesideFilter(Recommender):
    """A recommender whose scores are those of its vectors and of the filter together.

    It shares its parts with the recommender that it is made of, which is trained by training it;
    b is a parameter of its own, and is saved and selected with the weights.
    """

    def __init__(self, recommender: Recommender, pairs: FilterPairs) -> None:
        super().__init__(recommender.embedding, recommender.backbone)
        device = recommender.device
        self.pairs = pairs.to(device)
        self.log_beta = nn.Parameter(torch.tensor(math.log(START), device=device))

    @property
    def beta(self) -> float:
        """How much the filter counts."""
        return float(self.log_beta.detach().exp())

    def forward(self, batch: Batch) -> BatchOutput:
        """Scores of a training batch, the positive in column 0."""
        output = super().forward(batch)
        items = torch.cat([batch.positives[:, None], batch.negatives], dim=1)
        told = self.log_beta.exp() * self.pairs(batch.users[:, None], items)
        return output._replace(scores=output.scores + told)

    def scorer(self) -> TorchScorer:
        """Vectors and filter, as they are now."""
        return _ScorerBesideFilter(super().scorer(), self.pairs, self.beta)


class _ScorerBesideFilter:
    def __init__(self, vectors: TorchScorer, pairs: FilterPairs, beta: float) -> None:
        self.vectors, self.pairs, self.beta = vectors, pairs, beta

    @torch.no_grad()
    def score_all(self, users: Int32Array) -> Tensor:
        """Scores of every item, (len(users), num_items)."""
        places = torch.from_numpy(users.astype(np.int64)).to(self.pairs.keys.device)
        return self.vectors.score_all(users).add(self.pairs.of_users(places), alpha=self.beta)
