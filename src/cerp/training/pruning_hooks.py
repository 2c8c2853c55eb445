"""The ways of pruning, as what happens around the steps of the loop."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cerp.choices import PruneMode
from cerp.config import PruneConfig
from cerp.errors import TrainingError
from cerp.models.backbones.base import BatchVectors
from cerp.models.embeddings.prunable import PrunableEmbedding
from cerp.models.recommender import Recommender
from cerp.pruning.clocks import FreeClock, ScheduledClock, halfway_start
from cerp.pruning.functional import jaccard, top_mask
from cerp.pruning.stall import PruningEpoch, StallDetector
from cerp.training.adam import Adam, Optimizer
from cerp.training.loop import StageHooks
from cerp.training.objective import Objective
from cerp.training.optimizers import threshold_adam, weight_optimizer
from cerp.training.penalties import PENALTIES
from cerp.training.search_result import Found, pack, unpack

NNZ_CHECKS_PER_EPOCH = 20
"""How often free pruning counts what is left."""
STARTED_SHARE = 1e-3
"""Free pruning has started when so many entries are gone: not at the first that passes through
zero while it is trained."""
ENTITIES_AT_ONCE = 2**16
"""Whose penalty is measured together."""
KEPT = "kept"
"""The mask of gradual pruning, in checkpoints."""
DECAY_TIMES_ROWS = 0.1
"""Threshold decay times the number of rows. The loss moves a threshold through the share of a
batch that uses its row, so the decay that it is weighed against has to fall alike; with the
paper's two codebooks of 5,000 rows it is the authors' 1e-5."""


def threshold_scale(embedding: PrunableEmbedding, config: PruneConfig) -> float:
    """What the base matrix of the first thresholds is multiplied by."""
    if config.mode != "free":
        return -1.0  # Alike but for the base matrix: the shift does the rest.
    if config.threshold_scale is not None:
        return config.threshold_scale
    return halfway_start(_largest(embedding), embedding.weight.numel())


def _largest(embedding: PrunableEmbedding) -> float:
    return float(embedding.weight.detach().abs().max())


class PruningHooks(StageHooks):
    """What the ways of pruning share: the halving of gamma, and taking what is found."""

    plans_projection: ClassVar[bool] = False
    """Whether budgets are meant to be met by projection at the end."""

    def __init__(
        self,
        embedding: PrunableEmbedding,
        config: PruneConfig,
        limits: list[int],
        steps_per_epoch: int,
        verbose: bool = False,
    ) -> None:
        self.embedding, self.config, self.steps_per_epoch = embedding, config, steps_per_epoch
        self.verbose = verbose
        self.limits = sorted(set(limits), reverse=True)
        self.found: dict[int, Found] = {}
        self.records: list[PruningEpoch] = []
        self.started: float | None = None

    @property
    def pending(self) -> list[int]:
        """The limits that are not met yet, loosest first."""
        return [limit for limit in self.limits if limit not in self.found]

    def optimizers(self, model: Recommender) -> list[Optimizer]:
        """One for the weights, and the thresholds' own where there are thresholds."""
        threshold = self.embedding.threshold
        weights = [parameter for parameter in model.parameters() if parameter is not threshold]
        own = [] if threshold is None else [self.threshold_optimizer(threshold)]
        return [weight_optimizer(self.config, weights), *own]

    def threshold_optimizer(self, threshold: nn.Parameter) -> Optimizer:
        """Adam without decay: the gradient chooses, whatever does the pruning."""
        return Adam([threshold], learning_rate=self.config.threshold_learning_rate)

    def objective(self, usual: Objective, epoch: int) -> Objective:
        """The loss and the penalty, whose weight falls from epoch to epoch."""
        return replace(usual, gamma=self._gamma(epoch))

    def after_epoch(self, epoch: int) -> dict[str, float]:
        """Values left, sparsity, gamma, the mean effective threshold and the penalty.

        The penalty is the mean over all entities, ``−1/N Σ_k ‖tanh(η e_k)‖²``, whatever its
        weight. ``pruning_started`` is when the first entries were gone, in epochs.
        """
        embedding, nnz = self.embedding, self.embedding.nnz
        raised = embedding.threshold
        threshold = 0.0 if raised is None else float((raised.detach() + embedding.shift).mean())
        self.records.append(PruningEpoch(epoch + 1, nnz, threshold, self._gamma(epoch)))
        full = embedding.num_embeddings * embedding.embedding_dim
        row = {
            "nnz": nnz,
            "sparsity": 1 - nnz / full,
            "gamma": self._gamma(epoch),
            "mean_threshold": threshold,
            "penalty": self._penalty(),
        }
        return row if self.started is None else {**row, "pruning_started": self.started}

    def finish(self) -> None:
        """Meet the budgets that are still open by exact projection."""
        while self.pending:
            self._take(epoch=len(self.records), reached=self.plans_projection)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What was found, and the records, so far."""
        tensors, facts = pack(self.found)
        records = [list(entry) for entry in self.records]
        return tensors, {"found": facts, "records": records, "started": self.started}

    def load_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.found = unpack(tensors, facts["found"])
        self.records = [PruningEpoch(*entry) for entry in facts["records"]]
        self.started = facts.get("started")

    def _gamma(self, epoch: int) -> float:
        return self.config.gamma * self.config.gamma_decay**epoch

    @torch.no_grad()
    def _penalty(self) -> float:
        """Of all entities, their mean."""
        embedding, penalty = self.embedding, PENALTIES[self.config.penalty]
        total, lookup = 0.0, embedding.lookup()
        everyone = torch.arange(embedding.num_embeddings, device=embedding.weight.device)
        for ids in torch.split(everyone, ENTITIES_AT_ONCE):
            vectors = lookup(ids)
            counts = vectors.new_ones(len(ids))
            total += float(penalty(BatchVectors((vectors,), counts), self.config.temperature))
        return total / embedding.num_embeddings

    @torch.no_grad()
    def _take(self, *, epoch: float, reached: bool) -> None:
        """Keep the codebooks as they are now for the loosest limit that is open.

        Their values are soft-thresholded, and zero outside the mask. The facts: ``epoch``,
        when; ``reached``, whether pruning came there by itself; ``reached_sparsity``,
        ``1 - nnz / (N·d)`` just before the projection; ``magnitude_jaccard``, how far the
        mask agrees with plain magnitude pruning of the same codebooks.
        """
        limit = self.pending[0]
        mask = self.embedding.mask_for(limit)
        weight = self.embedding.effective_weight() * mask
        by_magnitude = top_mask(self.embedding.weight.abs(), limit)
        facts = {
            "epoch": epoch,
            "reached": reached,
            "reached_sparsity": self.embedding.sparsity,
            "magnitude_jaccard": jaccard(mask, by_magnitude),
        }
        self.found[limit] = Found({"weight": weight.clone(), "mask": mask}, facts)


class ScheduledPruning(PruningHooks):
    """The number of values follows a curve; learning decides which ones go."""

    @cached_property
    def clock(self) -> ScheduledClock:
        """The curve."""
        steps = self.config.epochs * self.steps_per_epoch
        return ScheduledClock(
            self.embedding.weight.numel(), tuple(self.limits), steps, self.config.dense_share
        )

    def before_step(self, step: int) -> None:
        """Shift the thresholds to where the curve is."""
        self.clock.apply(self.embedding, step)
        if self.started is None and self.clock.wanted(step) < self.clock.entries:
            self.started = step / self.steps_per_epoch

    def after_step(self, step: int) -> bool:
        """Take what is due."""
        for _ in self.clock.due(step + 1):
            self._take(epoch=(step + 1) / self.steps_per_epoch, reached=True)
        return False


class FreePruning(PruningHooks):
    """The paper's dynamics: coupled decay lifts the thresholds until the target is met."""

    warned = False
    """Whether a stall was spoken of; once is enough."""

    @cached_property
    def clock(self) -> FreeClock:
        """What lifts the thresholds, from the weights as they are at the start."""
        return FreeClock(
            start=threshold_scale(self.embedding, self.config),
            typical_weight=_largest(self.embedding),
            steps=self.config.epochs * self.steps_per_epoch,
            weight_decay=DECAY_TIMES_ROWS / self.embedding.num_rows,
        )

    def threshold_optimizer(self, threshold: nn.Parameter) -> Optimizer:
        """Adam with coupled decay, whichever optimizer trains the weights."""
        return threshold_adam(self.clock, threshold)

    def after_step(self, step: int) -> bool:
        """Take what is left for the budgets that are met; done when all are, or at a stall."""
        if (step + 1) % max(1, self.steps_per_epoch // NNZ_CHECKS_PER_EPOCH) == 0:
            nnz = self.embedding.nnz
            if self.started is None and nnz < (1 - STARTED_SHARE) * self.embedding.weight.numel():
                self.started = (step + 1) / self.steps_per_epoch
            while self.pending and nnz <= self.pending[0]:
                self._take(epoch=(step + 1) / self.steps_per_epoch, reached=True)
        return not self.pending or self._is_given_up()

    def finish(self) -> None:
        """Say that epochs ran out, where they did; then as ever."""
        if self.pending and not self.warned:
            self._tell(self._detector.last_message(self.records[-1]))
        super().finish()

    @property
    def _detector(self) -> StallDetector:
        # Before the wanted epochs are over nothing needs to happen, so nothing can stall.
        first = self.config.epochs
        return StallDetector(self.pending[-1], self.config.on_stall, first_epoch=first)

    def _is_given_up(self) -> bool:
        """Whether pruning stalled, and is to end there."""
        message = None if self.warned else self._detector.message(self.records)
        if message is None:
            return False
        self._tell(message)
        return self.config.on_stall == "project"

    def _tell(self, message: str) -> None:
        self.warned = True
        if self.config.on_stall == "stop":
            raise TrainingError(message)
        if self.verbose:
            print(message, file=sys.stderr)  # noqa: T201


class MagnitudePruning(PruningHooks):
    """Plain training, and then the largest entries: what learned thresholds have to beat."""

    plans_projection = True

    def objective(self, usual: Objective, epoch: int) -> Objective:
        """The loss alone: without thresholds nothing is to be kept complementary."""
        return replace(usual, gamma=0.0)


class GradualPruning(MagnitudePruning):
    """Plain training in which the smallest entries go along the curve, and stay at zero."""

    plans_projection = False
    _kept: Tensor | None = None

    @cached_property
    def clock(self) -> ScheduledClock:
        """The curve, as `ScheduledPruning` has it."""
        steps = self.config.epochs * self.steps_per_epoch
        return ScheduledClock(
            self.embedding.weight.numel(), tuple(self.limits), steps, self.config.dense_share
        )

    @torch.no_grad()
    def before_step(self, step: int) -> None:
        """Zero what is not among the largest by now; in place, as a recorded step needs it."""
        weight, wanted = self.embedding.weight, self.clock.wanted(step)
        if wanted == self.clock.entries:
            return
        if self.started is None:
            self.started = step / self.steps_per_epoch
        if self._kept is None or step % self.clock.every == 0:
            self._kept = top_mask(weight.abs(), wanted)
        weight.mul_(self._kept)

    def after_step(self, step: int) -> bool:
        """Take what is due."""
        for _ in self.clock.due(step + 1):
            self._take(epoch=(step + 1) / self.steps_per_epoch, reached=True)
        return False

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Also what is kept now."""
        tensors, facts = super().state()
        return tensors if self._kept is None else {**tensors, KEPT: self._kept}, facts

    def load_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """The inverse of `state`."""
        super().load_state(tensors, facts)
        kept = tensors.get(KEPT)
        self._kept = None if kept is None else kept.to(self.embedding.weight.device)


PRUNING: dict[PruneMode, type[PruningHooks]] = {
    "scheduled": ScheduledPruning,
    "free": FreePruning,
    "magnitude": MagnitudePruning,
    "gradual": GradualPruning,
}
