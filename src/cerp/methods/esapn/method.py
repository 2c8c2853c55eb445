"""ESAPN: a policy finds the size of every entity; then all is trained afresh with these sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cerp.errors import ConfigError
from cerp.methods.base import Context, Method, Search
from cerp.methods.esapn.embedding import SIZES, GrowingEmbedding
from cerp.methods.esapn.policy import (
    LossHistory,
    PairEntities,
    SizePolicy,
    grow,
    policy_loss,
    ranking_losses,
)
from cerp.methods.searching import ValidationBatches, check_rate, search_loop
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender
from cerp.training.adam import Adam
from cerp.training.loop import SideStep, StageHooks
from cerp.training.objective import Objective
from cerp.training.optimizers import weight_optimizer
from cerp.training.sampling import generator_at
from cerp.training.search_result import Found
from cerp.training.stages import ValidationJudge


class Esapn(Method):
    """Sizes that grow as a policy says (see `GrowingEmbedding`), then training with those sizes.

    The search alternates: the policy takes a step on a validation batch, and the
    model one on a training batch, for whose users and positive items the
    policy has chosen. Sizes for several budgets come out of one search: those
    of a tighter one are the sizes at the moment it is used up.

    Options: ``sizes``, of which those up to the dimension are used;
    ``policy_learning_rate``, by Adam without decay; ``history``, how many
    earlier losses of an entity a reward is measured against.
    """

    is_parallel = False

    def __init__(
        self,
        sizes: Sequence[int] = SIZES,
        policy_learning_rate: float = 1e-4,
        history: int = 5,
    ) -> None:
        if history < 1:
            raise ConfigError(f"history must hold at least 1 loss, got {history}")
        self._sizes, self._history = tuple(sizes), history
        self._rate = check_rate("policy_learning_rate", policy_learning_rate)

    def search(self, context: Context) -> Search:
        """The size of every entity, for each limit."""
        config, splits = context.config, context.splits
        self._growing(context, min(context.limits))  # refused before the search, not after it
        embedding = self._growing(context, max(context.limits))
        model = context.recommender(embedding)
        policy = SizePolicy(
            splits.num_users,
            len(embedding.sizes),
            context.degrees,
            generator=torch.Generator().manual_seed(config.seed + 2),
        ).to(context.device)
        hooks = _Search(
            model,
            policy,
            LossHistory(splits.num_entities, self._history).to(context.device),
            ValidationBatches(context, config.prune),
            context.limits,
            rate=self._rate,
            seed=config.seed + 3,
        )
        optimizer = weight_optimizer(config.prune, list(model.parameters()))
        loop = search_loop(context, self.search_stage, model, hooks, [optimizer])
        loop.run()
        judge = ValidationJudge(model, splits, config.train, config.seed, config.selection_metric)
        facts = {f"valid_{judge.metric}_without_retraining": judge()}
        return Search(hooks.found(facts), loop.history)

    def embedding(self, context: Context, limit: int, found: Found) -> GrowingEmbedding:
        """Fresh tables and maps, for the sizes that were found."""
        return self._growing(context, limit, found.tensors.get("levels"))

    def _growing(
        self, context: Context, limit: int, levels: Tensor | None = None
    ) -> GrowingEmbedding:
        return GrowingEmbedding.for_limit(
            context.splits.num_entities,
            context.config.dim,
            limit,
            num_users=context.splits.num_users,
            sizes=self._sizes,
            levels=None if levels is None else levels.cpu(),
            generator=context.generator(),
        )


@dataclass(frozen=True, kw_only=True)
class _GrowingObjective(Objective):
    """Users and positive items grow; the usual loss; and it is noted for both."""

    hooks: _Search

    def __call__(self, model: Recommender, batch: Batch, global_size: int) -> Tensor:
        users, items = batch.users, batch.positives + model.backbone.num_users
        entities = PairEntities.of(users, items)
        self.hooks.grow(entities.ids)
        output = model(batch)
        self.hooks.history.append(entities.mean_losses(ranking_losses(output.scores.detach())))
        return self.of_output(output) / global_size


class _Search(StageHooks):
    def __init__(
        self,
        model: Recommender,
        policy: SizePolicy,
        history: LossHistory,
        batches: ValidationBatches,
        limits: Sequence[int],
        *,
        rate: float,
        seed: int,
    ) -> None:
        assert isinstance(model.embedding, GrowingEmbedding)
        self.model, self.embedding, self.seed = model, model.embedding, seed
        self.policy, self.history, self.batches = policy, history, batches
        self.saved = nn.ModuleDict({"policy": policy, "history": history})
        self.limits = sorted(set(limits))
        self.levels: dict[int, Tensor] = {}
        """By limit, once it is used up."""
        optimizer = Adam(list(policy.parameters()), learning_rate=rate)
        self.side_step = SideStep(self._policy_loss, optimizer)

    def objective(self, usual: Objective, epoch: int) -> Objective:
        return _GrowingObjective(usual.loss, hooks=self)

    def grow(self, ids: Tensor) -> None:
        """Enlarge whom the policy wants to; keep the levels for limits that this passes."""
        embedding, pending = self.embedding, self._pending()
        grown = grow(self.policy, embedding, ids)
        values = embedding.nnz if pending else 0  # counting waits for the device
        passed = [limit for limit in pending if values > limit]
        if not passed:
            return
        sizes = torch.tensor(embedding.sizes, device=ids.device)
        levels = embedding.levels[grown]
        added = (sizes[levels] - sizes[levels - 1]).cumsum(0)
        for limit in passed:
            # The clearest cases came first: the later ones have no room under this limit.
            too_late = grown[added > limit - (values - added[-1])]
            self.levels[limit] = embedding.levels.index_add(0, too_late, -torch.ones_like(too_late))

    def after_epoch(self, epoch: int) -> dict[str, float]:
        return {"values": self.embedding.nnz}

    def found(self, judged: dict[str, float]) -> dict[int, Found]:
        """Levels by limit, and how the search's own model did with those it ended with."""
        return {limit: self._found(limit, judged) for limit in self.limits}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        levels = {str(limit): levels for limit, levels in self.levels.items()}
        return {**levels, **self.saved.state_dict()}, {"limits": list(self.levels)}

    def load_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.levels = {limit: tensors.pop(str(limit)) for limit in facts["limits"]}
        self.saved.load_state_dict(tensors)

    def _pending(self) -> list[int]:
        """The limits that may still be passed; that of the embedding itself never is."""
        passable = [limit for limit in self.limits if limit < self.embedding.limit]
        return [limit for limit in passable if limit not in self.levels]

    def _found(self, limit: int, judged: dict[str, float]) -> Found:
        is_last = limit not in self.levels
        levels = self.levels.get(limit, self.embedding.levels)
        counts = torch.bincount(levels, minlength=len(self.embedding.sizes)).tolist()
        sizes = map(str, self.embedding.sizes)
        facts = {
            "entities_of_size": dict(zip(sizes, counts, strict=True)),
            **(judged if is_last else dict.fromkeys(judged)),
        }
        return Found({"levels": levels}, facts)

    def _policy_loss(self, step: int) -> Tensor:
        batch = self.batches.at(step)
        return policy_loss(
            self.policy,
            self.embedding,
            self.history,
            batch.users,
            batch.positives + self.model.backbone.num_users,
            judge=lambda: ranking_losses(self.model(batch).scores),
            generator=generator_at(batch.users.device, self.seed, step),
        )
