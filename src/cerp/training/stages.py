"""The stages of a run: prune codebooks to their budgets, then train what is left.

`prune` finds what to keep for every budget in a single pruning run; `train`
takes any embedding, pruned or plain, to its best epoch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from cerp.config import PruneConfig, RunOptions, TrainConfig, default_batch_size
from cerp.data.ids import Float32Array
from cerp.data.splits import Splits
from cerp.evaluation.cold_start import with_popularity
from cerp.evaluation.evaluate import DEFAULT_MEMORY, evaluate, sample_users
from cerp.evaluation.metrics import cutoff_of
from cerp.models.embeddings.prunable import PrunableEmbedding
from cerp.models.recommender import Recommender
from cerp.training.adam import Adam, Optimizer
from cerp.training.beside_filter import BETA_RATE, BesideFilter, FilterPairs
from cerp.training.distillation import taught
from cerp.training.distributed import all_judge, rank, world_size
from cerp.training.loop import Checkpointing, EarlyStopping, Loop, StageHooks
from cerp.training.losses import LOSSES
from cerp.training.objective import Objective
from cerp.training.optimizers import weight_optimizer
from cerp.training.penalties import PENALTIES
from cerp.training.pruning_hooks import PRUNING, threshold_scale
from cerp.training.sampling import Sampler
from cerp.training.search_result import Found

GPU_SCORE_BYTES = 2**31
"""Size of a chunk of scores where they never leave a GPU."""


class StageResult(NamedTuple):
    """How a stretch of training went."""

    history: list[dict[str, float]]
    """One row per epoch."""
    best_epoch: int
    best_score: float
    """The selection metric on validation in that epoch."""
    selection_metric: str
    beta: float | None = None
    """Of the graph filter, where it was learned with the weights."""


def prune(
    model: Recommender,
    splits: Splits,
    config: PruneConfig,
    limits: list[int],
    *,
    seed: int,
    options: RunOptions,
    loss: str = "bpr",
    teacher: Float32Array | None = None,
    checkpointing: Checkpointing | None = None,
) -> tuple[dict[int, Found], list[dict[str, float]]]:
    """Prune the model's codebooks; what to keep for each limit, and the curves.

    The model must hold a dense `PrunableEmbedding`; it is used up. ``teacher`` has the
    final vectors of a model whose preferences it also learns.
    """
    objective = Objective(LOSSES[loss], PENALTIES[config.penalty], temperature=config.temperature)
    objective = taught(objective, teacher, splits.num_users, model.device)
    embedding = model.embedding
    assert isinstance(embedding, PrunableEmbedding)
    sampler = training_sampler(model, splits, config, seed)
    if config.mode in ("scheduled", "free"):
        scale = threshold_scale(embedding, config)
        # Not the seed of the weights: thresholds must not be drawn from the same numbers.
        generator = torch.Generator(device=model.device).manual_seed(seed + 4)
        embedding.start_pruning(config.threshold_start, scale=scale, generator=generator)
    verbose = rank() == 0 and not options.quiet
    hooks = PRUNING[config.mode](embedding, config, limits, len(sampler), verbose)
    loop = Loop(
        model,
        sampler,
        hooks.optimizers(model),
        epochs=config.max_epochs if config.mode == "free" else config.epochs,
        hooks=hooks,
        label="prune",
        objective=objective,
        clip_norm=config.clip_norm,
        precision=config.precision,
        checkpointing=checkpointing,
        quiet=options.quiet,
        watch=options.watch,
        callbacks=options.callbacks,
    )
    loop.run()
    hooks.finish()
    return hooks.found, loop.history


def train(
    model: Recommender,
    splits: Splits,
    config: TrainConfig,
    *,
    seed: int,
    label: str,
    options: RunOptions,
    loss: str = "bpr",
    selection_metric: str = "ndcg@10",
    teacher: Float32Array | None = None,
    beside: FilterPairs | None = None,
    hooks: StageHooks | None = None,
    epochs: int | None = None,
    checkpointing: Checkpointing | None = None,
) -> StageResult:
    """Train to the best epoch on validation; the model is left with its weights.

    Parameters
    ----------
    model
        What is trained, in place.
    splits
        The training part is learned from, and the validation part judged on.
    config
        Epochs, batches, rates.
    seed
        Of the batches, and of the sample of validation users.
    label
        What the stage is called in progress and messages.
    options
        Whether progress is shown.
    loss
        What is minimised, by its name in `cerp.training.losses`.
    selection_metric
        By what the best epoch is chosen, such as ``"recall@20"``.
    teacher
        Final vectors of a model whose preferences are learned beside the loss.
    beside
        What the graph filter gives pairs: it is in the scores while training, and how much it
        counts there is learned.
    hooks
        What a method does around the steps.
    epochs
        Train for just so many, without looking at validation.
    checkpointing
        Where the stage saves itself; None: nowhere.

    """
    together = None if beside is None else BesideFilter(model, beside)
    optimizers: list[Optimizer] = [weight_optimizer(config, list(model.parameters()))]
    if together is not None:
        optimizers.append(Adam([together.log_beta], learning_rate=BETA_RATE))
    judge = ValidationJudge(together or model, splits, config, seed, selection_metric)
    stopping = EarlyStopping(judge, config.evaluate_every, config.patience, selection_metric)
    loop = Loop(
        together or model,
        training_sampler(model, splits, config, seed),
        optimizers,
        epochs=epochs or config.epochs,
        hooks=hooks or StageHooks(),
        label=label,
        objective=taught(Objective(LOSSES[loss]), teacher, splits.num_users, model.device),
        early_stopping=stopping if epochs is None else None,
        cosine=config.schedule == "cosine",
        clip_norm=config.clip_norm,
        precision=config.precision,
        checkpointing=checkpointing,
        quiet=options.quiet,
        watch=options.watch,
        callbacks=options.callbacks,
    )
    loop.run()
    score, epoch = loop.best
    best_epoch = epoch if epochs is None else loop.epochs
    beta = None if together is None else together.beta
    return StageResult(loop.history, best_epoch, score, selection_metric, beta)


class ValidationJudge:
    """A metric on validation, of all users or always the same sample of them."""

    def __init__(
        self, model: Recommender, splits: Splits, config: TrainConfig, seed: int, metric: str
    ) -> None:
        self.model, self.splits = model, splits
        self.metric, self.cutoff = metric, cutoff_of(metric)
        count = config.validation_users
        self.users = None if count is None else sample_users(splits, "valid", count, seed)

    def __call__(self) -> float:
        """Of the model as it is now."""
        metrics = evaluate(
            with_popularity(self.model.scorer(), self.splits.train),
            self.splits,
            on="valid",
            ks=(self.cutoff,),
            users=self.users,
            memory=score_memory(self.model.device),
            sharing=all_judge(self.model.device),
        )
        return metrics.mean[self.metric]


def score_memory(device: torch.device) -> int:
    """How large a chunk of scores `evaluate` may take on a device."""
    return GPU_SCORE_BYTES if device.type == "cuda" else DEFAULT_MEMORY


def training_sampler(
    model: Recommender, splits: Splits, config: TrainConfig | PruneConfig, seed: int
) -> Sampler:
    """The batches that a stretch of training is configured to have, or this process's rows."""
    return Sampler(
        splits.train,
        share=(rank(), world_size()),
        batch_size=config.batch_size or default_batch_size(len(splits.train)),
        epoch_size=config.epoch_size,
        negatives=config.negatives,
        seed=seed,
        device=model.device,
    )
