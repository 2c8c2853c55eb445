"""The stages of a run: prune codebooks to their budgets, then train what is left.

`prune` gives one `Snapshot` per budget out of a single pruning run; `train`
takes any embedding, a snapshot's or a plain one, to its best epoch.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from cerp.choices import PruneMode
from cerp.config import PruneConfig, RunOptions, TrainConfig, default_batch_size
from cerp.data.splits import Splits
from cerp.errors import TrainingError
from cerp.evaluation.evaluate import DEFAULT_MEMORY, evaluate, sample_users
from cerp.models.embeddings.prunable import PrunableEmbedding
from cerp.models.recommender import Recommender
from cerp.pruning.functional import jaccard, top_mask
from cerp.pruning.thresholds import FreeClock, PruningEpoch, ScheduledClock, StallDetector
from cerp.training.distributed import rank
from cerp.training.loop import Checkpointing, EarlyStopping, Loop, Objective, StageHooks
from cerp.training.optimizers import adam
from cerp.training.sampling import Sampler

NNZ_CHECKS_PER_EPOCH = 20
"""How often free pruning counts what is left."""
DECAY_TIMES_ROWS = 0.1
"""Threshold decay times the number of rows. The loss moves a threshold through the share of a
batch that uses its row, so the decay that it is weighed against has to fall alike; with the
paper's two codebooks of 5,000 rows it is the authors' 1e-5."""
GPU_SCORE_BYTES = 2**31
"""Size of a chunk of scores where they never leave a GPU."""


class Snapshot(NamedTuple):
    """The codebooks at the moment a budget was met."""

    weight: Tensor
    """Soft-thresholded values, zero outside the mask."""
    mask: Tensor
    """Which entries survive: at most the budget."""
    facts: dict[str, Any]
    """epoch: when; reached: whether pruning came there by itself; reached_sparsity:
    ``1 - nnz / (N·d)`` just before the projection; magnitude_jaccard: how far
    the mask agrees with plain magnitude pruning of the same codebooks."""


def pack_snapshots(snapshots: dict[int, Snapshot]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Snapshots by limit, as named tensors and facts."""
    tensors: dict[str, Tensor] = {}
    for limit, snapshot in snapshots.items():
        tensors |= {f"{limit}.weight": snapshot.weight, f"{limit}.mask": snapshot.mask}
    return tensors, {str(limit): snapshot.facts for limit, snapshot in snapshots.items()}


def unpack_snapshots(tensors: dict[str, Tensor], facts: dict[str, Any]) -> dict[int, Snapshot]:
    """The inverse of `pack_snapshots`."""
    return {
        int(limit): Snapshot(tensors[f"{limit}.weight"], tensors[f"{limit}.mask"], its_facts)
        for limit, its_facts in facts.items()
    }


class StageResult(NamedTuple):
    """How a stretch of training went."""

    history: list[dict[str, float]]
    """One row per epoch."""
    best_epoch: int
    best_score: float
    """Validation NDCG@10 in that epoch."""


def prune(
    model: Recommender,
    splits: Splits,
    config: PruneConfig,
    limits: list[int],
    *,
    seed: int,
    options: RunOptions,
    checkpointing: Checkpointing | None = None,
) -> tuple[dict[int, Snapshot], list[dict[str, float]]]:
    """Prune the model's codebooks; a snapshot for each limit, and the curves.

    The model must hold a dense `PrunableEmbedding`; it is used up.
    """
    embedding = model.embedding
    assert isinstance(embedding, PrunableEmbedding)
    sampler = training_sampler(model, splits, config, seed)
    if config.mode != "magnitude":
        # Scheduled thresholds start alike but for the base matrix: the shift does the rest.
        scale = config.threshold_scale if config.mode == "free" else -1.0
        # Not the seed of the weights: thresholds must not be drawn from the same numbers.
        generator = torch.Generator(device=model.device).manual_seed(seed + 4)
        embedding.start_pruning(config.threshold_start, scale=scale, generator=generator)
    is_heard = rank() == 0 and not options.quiet
    hooks = PRUNING[config.mode](embedding, config, limits, len(sampler), is_heard)
    loop = Loop(
        model,
        sampler,
        hooks.optimizers(model),
        epochs=config.max_epochs if config.mode == "free" else config.epochs,
        hooks=hooks,
        label="prune",
        clip_norm=config.clip_norm,
        precision=config.precision,
        checkpointing=checkpointing,
        quiet=options.quiet,
    )
    loop.run()
    hooks.finish()
    return hooks.snapshots, loop.history


def train(
    model: Recommender,
    splits: Splits,
    config: TrainConfig,
    *,
    seed: int,
    label: str,
    options: RunOptions,
    hooks: StageHooks | None = None,
    epochs: int | None = None,
    checkpointing: Checkpointing | None = None,
) -> StageResult:
    """Train to the best epoch by validation NDCG@10; the model is left with its weights.

    Given ``epochs``, train for just so many without looking at validation.
    """
    judged = epochs is None
    loop = Loop(
        model,
        training_sampler(model, splits, config, seed),
        [weight_optimizer(config, list(model.parameters()))],
        epochs=epochs or config.epochs,
        hooks=hooks or StageHooks(),
        label=label,
        early_stopping=EarlyStopping(
            ValidationJudge(model, splits, config, seed), config.evaluate_every, config.patience
        )
        if judged
        else None,
        cosine=config.schedule == "cosine",
        clip_norm=config.clip_norm,
        precision=config.precision,
        checkpointing=checkpointing,
        quiet=options.quiet,
    )
    loop.run()
    score, epoch = loop.best
    return StageResult(loop.history, epoch if judged else loop.epochs, score)


class ValidationJudge:
    """Validation NDCG@10, on all users or always the same sample of them."""

    def __init__(self, model: Recommender, splits: Splits, config: TrainConfig, seed: int) -> None:
        self.model, self.splits = model, splits
        count = config.validation_users
        self.users = None if count is None else sample_users(splits, "valid", count, seed)

    def __call__(self) -> float:
        """Of the model as it is now."""
        metrics = evaluate(
            self.model.scorer(),
            self.splits,
            on="valid",
            ks=(10,),
            users=self.users,
            memory=score_memory(self.model.device),
        )
        return metrics.mean["ndcg@10"]


def score_memory(device: torch.device) -> int:
    """How large a chunk of scores `evaluate` may take on a device."""
    return GPU_SCORE_BYTES if device.type == "cuda" else DEFAULT_MEMORY


class PruningHooks(StageHooks):
    """What the ways of pruning share: the halving of gamma, and the snapshots."""

    plans_projection: ClassVar[bool] = False
    """Whether budgets are meant to be met by projection at the end."""

    def __init__(
        self,
        embedding: PrunableEmbedding,
        config: PruneConfig,
        limits: list[int],
        steps_per_epoch: int,
        is_heard: bool = False,
    ) -> None:
        self.embedding, self.config, self.steps_per_epoch = embedding, config, steps_per_epoch
        self.is_heard = is_heard
        self.limits = sorted(set(limits), reverse=True)
        self.snapshots: dict[int, Snapshot] = {}
        self.records: list[PruningEpoch] = []

    @property
    def pending(self) -> list[int]:
        """The limits that are not met yet, loosest first."""
        return [limit for limit in self.limits if limit not in self.snapshots]

    def optimizers(self, model: Recommender) -> list[torch.optim.Optimizer]:
        """One for the weights, and the thresholds' own where there are thresholds."""
        weights = [
            parameter for name, parameter in model.named_parameters() if "threshold" not in name
        ]
        threshold = self.embedding.threshold
        own = [] if threshold is None else [self.threshold_optimizer(threshold)]
        return [weight_optimizer(self.config, weights), *own]

    def threshold_optimizer(self, threshold: nn.Parameter) -> torch.optim.Optimizer:
        """Adam without decay: the gradient chooses, whatever does the pruning."""
        return adam([threshold], learning_rate=self.config.threshold_learning_rate)

    def objective(self, epoch: int) -> Objective:
        """BPR and the penalty, whose weight falls from epoch to epoch."""
        return Objective(self._gamma(epoch), self.config.temperature)

    def after_epoch(self, epoch: int) -> dict[str, float]:
        """Values left, sparsity, gamma and the mean effective threshold."""
        embedding, nnz = self.embedding, self.embedding.nnz
        raised = embedding.threshold
        threshold = 0.0 if raised is None else float((raised.detach() + embedding.shift).mean())
        self.records.append(PruningEpoch(epoch + 1, nnz, threshold, self._gamma(epoch)))
        full = embedding.num_embeddings * embedding.embedding_dim
        return {
            "nnz": nnz,
            "sparsity": 1 - nnz / full,
            "gamma": self._gamma(epoch),
            "mean_threshold": threshold,
        }

    def finish(self) -> None:
        """Meet the budgets that are still open by exact projection."""
        while self.pending:
            self._take_snapshot(epoch=len(self.records), reached=self.plans_projection)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Snapshots and records so far."""
        tensors, facts = pack_snapshots(self.snapshots)
        return tensors, {"snapshots": facts, "records": [list(entry) for entry in self.records]}

    def load_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.snapshots = unpack_snapshots(tensors, facts["snapshots"])
        self.records = [PruningEpoch(*entry) for entry in facts["records"]]

    def _gamma(self, epoch: int) -> float:
        return self.config.gamma * self.config.gamma_decay**epoch

    @torch.no_grad()
    def _take_snapshot(self, *, epoch: float, reached: bool) -> None:
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
        self.snapshots[limit] = Snapshot(weight.clone(), mask, facts)


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

    def after_step(self, step: int) -> bool:
        """Take the snapshots that are due."""
        for _ in self.clock.due(step + 1):
            self._take_snapshot(epoch=(step + 1) / self.steps_per_epoch, reached=True)
        return False


class FreePruning(PruningHooks):
    """The paper's dynamics: coupled decay lifts the thresholds until the target is met."""

    has_told = False
    """Whether a stall was spoken of; once is enough."""

    @cached_property
    def clock(self) -> FreeClock:
        """What lifts the thresholds, from the weights as they are at the start."""
        return FreeClock(
            start=self.config.threshold_scale,
            typical_weight=float(self.embedding.weight.detach().abs().max()),
            steps=self.config.epochs * self.steps_per_epoch,
            weight_decay=DECAY_TIMES_ROWS / self.embedding.num_rows,
        )

    def threshold_optimizer(self, threshold: nn.Parameter) -> torch.optim.Optimizer:
        """Adam with coupled decay, whichever optimizer trains the weights."""
        return self.clock.optimizer(threshold)

    def after_step(self, step: int) -> bool:
        """Take the snapshots of the budgets that are met; done when all are, or at a stall."""
        if (step + 1) % max(1, self.steps_per_epoch // NNZ_CHECKS_PER_EPOCH) == 0:
            nnz = self.embedding.nnz
            while self.pending and nnz <= self.pending[0]:
                self._take_snapshot(epoch=(step + 1) / self.steps_per_epoch, reached=True)
        return not self.pending or self._is_given_up()

    def finish(self) -> None:
        """Say that epochs ran out, where they did; then as ever."""
        if self.pending and not self.has_told:
            self._tell(self._detector.last_message(self.records[-1]))
        super().finish()

    @property
    def _detector(self) -> StallDetector:
        # Before the wanted epochs are over nothing needs to happen, so nothing can stall.
        first = self.config.epochs
        return StallDetector(self.pending[-1], self.config.on_stall, first_epoch=first)

    def _is_given_up(self) -> bool:
        """Whether pruning stalled, and is to end there."""
        message = None if self.has_told else self._detector.message(self.records)
        if message is None:
            return False
        self._tell(message)
        return self.config.on_stall == "project"

    def _tell(self, message: str) -> None:
        self.has_told = True
        if self.config.on_stall == "stop":
            raise TrainingError(message)
        if self.is_heard:
            print(message, file=sys.stderr)  # noqa: T201


class MagnitudePruning(PruningHooks):
    """Plain training, and then the largest entries: what learned thresholds have to beat."""

    plans_projection = True

    def objective(self, epoch: int) -> Objective:
        """BPR alone: without thresholds nothing is to be kept complementary."""
        return Objective()


PRUNING: dict[PruneMode, type[PruningHooks]] = {
    "scheduled": ScheduledPruning,
    "free": FreePruning,
    "magnitude": MagnitudePruning,
}


def weight_optimizer(
    config: TrainConfig | PruneConfig, parameters: list[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimizer that a stretch of training is configured to have."""
    return adam(
        parameters,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        decoupled=config.optimizer == "adamw",
    )


def training_sampler(
    model: Recommender, splits: Splits, config: TrainConfig | PruneConfig, seed: int
) -> Sampler:
    """The batches that a stretch of training is configured to have."""
    return Sampler(
        splits.train,
        batch_size=config.batch_size or default_batch_size(len(splits.train)),
        negatives=config.negatives,
        seed=seed,
        device=model.device,
    )
