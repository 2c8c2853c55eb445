"""`Pruner`: thresholds on a schedule, for one or several embeddings, in any training loop."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from cerp.budget import Budget
from cerp.errors import ConfigError
from cerp.pruning.clocks import CEILING_TO_WEIGHT, Prunable, ScheduledClock
from cerp.pruning.functional import margin, shift_to_keep, top_mask


class PrunableModule(Prunable, Protocol):
    """What a pruner needs of an embedding."""

    num_embeddings: int
    embedding_dim: int

    def start_pruning(self) -> None:
        """Give every entry a threshold."""

    def restrict(self, mask: Tensor) -> Tensor:
        """Keep the entries of a mask from now on; drop thresholds."""

    def rewind(self, initial_weight: Tensor) -> None:
        """The surviving entries back at first values."""


class Pruner:
    """Brings embeddings under one limit on stored values in a number of optimizer steps.

        pruner = Pruner([users, items], budget="97%", steps=800)   # thresholds begin here
        adam = torch.optim.Adam(model.parameters())                # after it: they are parameters
        for batch in batches:
            ...
            adam.step()
            pruner.step()
        pruner.finish()                                            # exact masks: new optimizer

    `ScheduledClock` says how many entries survive at each step, counted over all embeddings
    together; which go is learned. `finish` keeps exactly the t entries of all embeddings with the
    largest ``|W| − c·σ(S + a)``.

    Parameters
    ----------
    embeddings
        One or several, such as `cerp.nn.CompositionalEmbedding`.
    budget
        Of all of them together: a pruned share of their full tables such as ``"97%"``, or a number
        of values.
    steps
        Optimizer steps from all entries to the limit.
    dense_share
        The share of the steps at the beginning in which nothing goes.
    rewind
        Whether `finish` puts the surviving entries back to the values they have now, as the
        paper does, instead of leaving them at their pruned values.

    """

    def __init__(
        self,
        embeddings: Sequence[PrunableModule],
        budget: Budget | str | int,
        steps: int,
        *,
        dense_share: float = 0.0,
        rewind: bool = False,
    ) -> None:
        if not embeddings:
            raise ConfigError("a pruner needs an embedding at least")
        self.embeddings = list(embeddings)
        dims = {embedding.embedding_dim for embedding in self.embeddings}
        if len(dims) > 1:
            raise ConfigError(
                f"one budget is over embeddings of one dimension, got {sorted(dims)}; make a "
                "pruner for each"
            )
        count = sum(embedding.num_embeddings for embedding in self.embeddings)
        self.limit = Budget.parse(budget).limit(count, dims.pop())
        entries = sum(embedding.weight.numel() for embedding in self.embeddings)
        self.clock = ScheduledClock(entries, (self.limit,), steps, dense_share)
        self.steps_done = 0
        self.is_finished = False
        self._first = [
            embedding.weight.detach().clone() if rewind else None for embedding in self.embeddings
        ]
        for embedding in self.embeddings:
            if embedding.threshold is None:
                embedding.start_pruning()
        self._apply()

    @property
    def wanted(self) -> int:
        """How many entries survive now, by the schedule."""
        return self.clock.wanted(min(self.steps_done, self.clock.steps))

    def step(self) -> None:
        """After every step of the optimizer: shift the thresholds to where the schedule is."""
        if self.is_finished:
            raise ConfigError("pruning is finished; nothing is left to step")
        self.steps_done += 1
        self._apply()

    @torch.no_grad()
    def finish(self) -> list[Tensor]:
        """Keep exactly the limit from now on, drop thresholds, and give the masks back.

        Make a new optimizer afterwards: the thresholds are gone.
        """
        if self.steps_done == 0:
            warnings.warn(
                "the pruner was never stepped, so that entries are chosen by their size alone; "
                "call pruner.step() after every step of the optimizer",
                stacklevel=2,
            )
        scores = [
            margin(one.weight, one.threshold + one.shift, one.ceiling)
            for one in self.embeddings
            if one.threshold is not None
        ]
        if len(scores) != len(self.embeddings):
            raise ConfigError("an embedding has no thresholds any more; it was projected already")
        kept = top_mask(torch.cat([score.flatten() for score in scores]), self.limit)
        parts = torch.split(kept, [score.numel() for score in scores])
        masks = []
        for embedding, part, first in zip(self.embeddings, parts, self._first, strict=True):
            masks.append(embedding.restrict(part.view_as(embedding.weight)))
            if first is not None:
                embedding.rewind(first)
        self.is_finished = True
        return masks

    @torch.no_grad()
    def _apply(self) -> None:
        """One ceiling and one shift for all, so that `wanted` entries survive together."""
        if len(self.embeddings) == 1:
            self.clock.apply(self.embeddings[0], min(self.steps_done, self.clock.steps))
            return
        weights = [embedding.weight.detach().flatten() for embedding in self.embeddings]
        thresholds = [_threshold_of(one).detach().flatten() for one in self.embeddings]
        weight, threshold = torch.cat(weights), torch.cat(thresholds)
        ceiling = (CEILING_TO_WEIGHT * weight.abs().max()).clamp_min(1.0)
        shift = shift_to_keep(weight, threshold, self.wanted, ceiling)
        for embedding in self.embeddings:
            embedding.ceiling.copy_(ceiling)
            embedding.shift.copy_(shift)


def _threshold_of(embedding: PrunableModule) -> Tensor:
    if embedding.threshold is None:
        raise ConfigError("an embedding has no thresholds any more; it was projected already")
    return embedding.threshold
