"""Adam, as every stage uses it, for weights and for thresholds."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from cerp.config import PruneConfig, TrainConfig
from cerp.pruning.clocks import FreeClock
from cerp.training.adam import Adam, Optimizer


def weight_optimizer(
    config: TrainConfig | PruneConfig, parameters: Sequence[nn.Parameter]
) -> Optimizer:
    """The optimizer that a stretch of training is configured to have."""
    return Adam(
        parameters,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        decoupled=config.optimizer == "adamw",
    )


def threshold_adam(clock: FreeClock, threshold: nn.Parameter) -> Optimizer:
    """The thresholds' own optimizer, whose decay lifts them as the clock says."""
    return Adam(
        [threshold],
        learning_rate=clock.learning_rate,
        betas=clock.betas,
        weight_decay=clock.weight_decay,
    )
