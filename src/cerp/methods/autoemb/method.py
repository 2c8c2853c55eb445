"""AutoEmb: controllers and model learn in turn, and there is nothing to retrain."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cerp.methods.autoemb.embedding import AutoEmbedding
from cerp.methods.base import Context, Method
from cerp.methods.searching import ValidationBatches, check_rate
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender
from cerp.training.adam import Adam
from cerp.training.loop import SideStep, StageHooks
from cerp.training.losses import LOSSES
from cerp.training.objective import Objective
from cerp.training.search_result import Found


class AutoEmb(Method):
    """Sizes mixed by controllers that learn on validation batches (see `AutoEmbedding`).

    Before each step on a training batch the controllers take one on a validation
    batch: first-order alternation, without the unrolled gradient. So validation
    data is learned from, as in the original, and its figures flatter the method; test data
    is not.

    ``controller_learning_rate`` is theirs, by Adam without decay.
    """

    is_parallel = False

    def __init__(self, controller_learning_rate: float = 1e-4) -> None:
        self._rate = check_rate("controller_learning_rate", controller_learning_rate)

    def embedding(self, context: Context, limit: int, found: Found) -> AutoEmbedding:
        """With the sizes that the limit allows."""
        return AutoEmbedding.for_limit(
            context.splits.num_entities,
            context.config.dim,
            limit,
            num_users=context.splits.num_users,
            degrees=context.degrees,
            generator=context.generator(),
        )

    def hooks(self, context: Context, model: Recommender) -> StageHooks:
        """The controllers' side steps."""
        batches = ValidationBatches(context, context.config.train)
        return _Alternation(model, batches, Objective(LOSSES[context.config.loss]), self._rate)


@dataclass(frozen=True)
class _RememberingObjective(Objective):
    """The usual loss; the weights of the batch's entities are kept."""

    def __call__(self, model: Recommender, batch: Batch, global_size: int) -> Tensor:
        loss = super().__call__(model, batch, global_size)
        assert isinstance(model.embedding, AutoEmbedding)
        items = torch.cat([batch.positives[:, None], batch.negatives], dim=1)
        model.embedding.remember(torch.unique(model.backbone.entities(batch.users, items)))
        return loss


class _Alternation(StageHooks):
    def __init__(
        self, model: Recommender, batches: ValidationBatches, objective: Objective, rate: float
    ) -> None:
        assert isinstance(model.embedding, AutoEmbedding)
        self._objective = objective
        self._model, self._embedding, self._batches = model, model.embedding, batches
        parameters = self._embedding.controller_parameters()
        self.side_step = SideStep(self._controller_loss, Adam(parameters, learning_rate=rate))

    def objective(self, usual: Objective, epoch: int) -> Objective:
        return _RememberingObjective(usual.loss)

    def after_epoch(self, epoch: int) -> dict[str, float]:
        """Judging comes next, and looks at all entities."""
        self._embedding.eval()
        self._embedding.refresh()
        self._embedding.train()
        shares = self._embedding.alpha.mean(dim=0).tolist()
        return {
            f"share_of_size_{size}": share
            for size, share in zip(self._embedding.sizes, shares, strict=True)
        }

    def _controller_loss(self, step: int) -> Tensor:
        batch = self._batches.at(step)
        with self._embedding.controllers_learning():
            return self._objective(self._model, batch, len(batch.users))
