"""`Objective`: what a training step minimises."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cerp.errors import ConfigError
from cerp.models.backbones.base import BatchOutput
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender
from cerp.training.losses import Loss, bpr
from cerp.training.penalties import Penalty, complementary


@dataclass(frozen=True)
class Objective:
    """``L = (loss + γ · penalty) / B``, both sums over the global batch of B positives."""

    loss: Loss = bpr
    """Of the scores; see `cerp.training.losses`."""
    penalty: Penalty = complementary
    """Of the vectors, which are looked at only where gamma is not zero; see
    `cerp.training.penalties`."""
    gamma: float | Tensor = 0.0
    """Weight of the penalty; a tensor, in a recorded step, is read where it lies."""
    temperature: float = 100.0
    """η of the penalty."""

    def __call__(self, model: Recommender, batch: Batch, global_size: int) -> Tensor:
        """The share of this process in the loss."""
        return self.of_output(model(batch)) / global_size

    @property
    def has_penalty(self) -> bool:
        """Whether vectors are looked at; no device is asked."""
        return isinstance(self.gamma, Tensor) or self.gamma != 0

    def of_output(self, output: BatchOutput) -> Tensor:
        """``loss + γ · penalty`` of what a model made of a batch."""
        loss = self.loss(output.scores)
        if not self.has_penalty:
            return loss
        if output.vectors is None:
            raise ConfigError(
                "the backbone does not say which vectors a penalty is to look at; give its "
                "BatchOutput vectors, or prune without a penalty (gamma=0)"
            )
        if output.complementary is not None and self.penalty is complementary:
            return loss + self.gamma * output.complementary(self.temperature)
        return loss + self.gamma * self.penalty(output.vectors(), self.temperature)
