"""What methods share that learn on validation batches, or train something before what they keep."""

from __future__ import annotations

from cerp.config import PruneConfig, TrainConfig, default_batch_size
from cerp.errors import ConfigError
from cerp.methods.base import Context
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender
from cerp.training.adam import Optimizer
from cerp.training.loop import Loop, StageHooks
from cerp.training.losses import LOSSES
from cerp.training.objective import Objective
from cerp.training.sampling import Sampler
from cerp.training.stages import training_sampler


class ValidationBatches:
    """Batches of validation positives, with negatives that are positives of neither part.

    As many positives as a training batch has, if there are so many. Where
    nothing is left to validate on, in a refit, they are training batches, drawn apart
    from those that the model learns from.
    """

    def __init__(self, context: Context, config: TrainConfig | PruneConfig) -> None:
        splits = context.splits
        self._sampler = Sampler(
            splits.train_and_valid,
            positives=splits.valid if len(splits.valid) else None,
            batch_size=config.batch_size or default_batch_size(len(splits.train)),
            negatives=config.negatives,
            seed=context.config.seed + 2,
            device=context.device,
        )

    def at(self, step: int) -> Batch:
        """The batch of a step; after the last one, all come in another order."""
        return self._sampler.batch(*divmod(step, len(self._sampler)))


def search_loop(
    context: Context,
    stage: str,
    model: Recommender,
    hooks: StageHooks,
    optimizers: list[Optimizer],
) -> Loop:
    """Training before what is kept is known: batches, epochs and steps are those of pruning."""
    config = context.config.prune
    return Loop(
        model,
        training_sampler(model, context.splits, config, context.config.seed),
        optimizers,
        epochs=config.epochs,
        hooks=hooks,
        label=stage,
        objective=Objective(LOSSES[context.config.loss]),
        clip_norm=config.clip_norm,
        precision=config.precision,
        checkpointing=context.checkpointing(stage),
        quiet=context.options.quiet,
        callbacks=context.options.callbacks,
    )


def check_rate(name: str, rate: float) -> float:
    """The learning rate or weight called ``name``, which must be above zero."""
    if not (isinstance(rate, int | float) and rate > 0):
        raise ConfigError(f"{name} must be a number above zero, got {rate!r}")
    return rate
