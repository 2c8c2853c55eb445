"""OptEmbed: a supernet, evolution in it, and training of what was found from the first values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cerp.data.ids import Int64Array
from cerp.errors import TrainingError
from cerp.methods.base import Context, Search
from cerp.methods.optembed.evolution import Evolved, Plan, evolve
from cerp.methods.optembed.supernet import Genes, Supernet
from cerp.methods.pep import Pep
from cerp.methods.searching import check_rate, search_loop
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender
from cerp.progress import progress
from cerp.training.loop import StageHooks
from cerp.training.objective import Objective
from cerp.training.optimizers import weight_optimizer
from cerp.training.search_result import Found
from cerp.training.stages import ValidationJudge


class OptEmbed(Pep):
    """Rows dropped by learned thresholds, widths found by evolution (see `Supernet`).

    1. A supernet of the full table is trained, for as many epochs as pruning would take.
    2. For each limit, evolution over the widths that keep to it, judged by the frozen supernet's
       selection metric on validation, for a sample of users.
    3. What was found is a mask, and the full table's first values under it are trained: PEP's last
       stage.

    Options: ``genes``, a width for each ``field`` (the original) or ``entity``;
    ``threshold_learning_rate`` of the row thresholds, by plain SGD;
    ``threshold_penalty``, the weight α of ``Σ_f exp(−τ_f)``; ``generations`` and
    ``population`` of the evolution; ``judged_users``, the size of the sample. Both rates are far
    above the original's 1e-4, with which a threshold moves by 1e-8 a step: with the few steps that
    a graph takes it would stay where it is (results/optembed.json).
    """

    search_stage = "search"
    is_parallel = False

    def __init__(
        self,
        genes: Genes = "field",
        threshold_learning_rate: float = 0.1,
        threshold_penalty: float = 0.01,
        generations: int = 30,
        population: int = 20,
        judged_users: int = 1000,
    ) -> None:
        self._genes = genes
        self._rate = check_rate("threshold_learning_rate", threshold_learning_rate)
        self._penalty = check_rate("threshold_penalty", threshold_penalty)
        self._plan = Plan(population=population, generations=generations)
        self._judged_users = judged_users

    def search(self, context: Context) -> Search:
        """A mask for each limit."""
        supernet = self._supernet(context)
        model = context.recommender(supernet)
        weights = [
            parameter
            for parameter in model.parameters()
            if parameter is not supernet.row_thresholds
        ]
        optimizers = [
            weight_optimizer(context.config.prune, weights),
            torch.optim.SGD([supernet.row_thresholds], lr=self._rate),
        ]
        hooks = _SupernetHooks(supernet, self._penalty)
        loop = search_loop(context, self.search_stage, model, hooks, optimizers)
        loop.run()
        found = {limit: self._found(context, model, limit) for limit in sorted(set(context.limits))}
        return Search(found, loop.history)

    def _supernet(self, context: Context) -> Supernet:
        """With the first values of the table that is trained in the end."""
        supernet = Supernet.for_limit(
            context.splits.num_entities,
            context.config.dim,
            max(context.limits),
            num_users=context.splits.num_users,
            genes=self._genes,
            seed=context.config.seed,
        )
        supernet.weight.data.copy_(self.fresh(context).weight)
        return supernet

    def _found(self, context: Context, model: Recommender, limit: int) -> Found:
        supernet, config = model.embedding, context.config
        assert isinstance(supernet, Supernet)
        kept = supernet.kept_rows()
        if not (kept[: supernet.num_users].any() and kept[supernet.num_users :].any()):
            raise TrainingError(
                "OptEmbed's thresholds have dropped all users or all items; lower "
                "threshold_penalty or threshold_learning_rate"
            )
        judge = ValidationJudge(
            model,
            context.splits,
            replace(config.train, validation_users=self._judged_users),
            config.seed,
            config.selection_metric,
        )
        with progress(f"evolve {limit}", self._most_judged(), quiet=context.options.quiet) as bar:

            def fitness(widths: Int64Array) -> float:
                with supernet.trying(widths):
                    score = judge()
                bar.advance()
                return score

            rng = np.random.default_rng((config.seed, limit))
            best = evolve(supernet.search_space(limit), fitness, rng, self._plan)
        facts = self._facts(supernet, best, config.selection_metric)
        return Found({"mask": supernet.mask_of(best.genes)}, facts)

    def _most_judged(self) -> int:
        plan = self._plan
        return plan.population + plan.generations * (plan.crossovers + plan.mutations)

    def _facts(self, supernet: Supernet, best: Evolved, metric: str) -> dict[str, Any]:
        kept = supernet.kept_rows()
        return {
            "kept_users": int(kept[: supernet.num_users].sum()),
            "kept_items": int(kept[supernet.num_users :].sum()),
            "widths": best.genes.tolist() if self._genes == "field" else None,
            f"valid_{metric}_without_retraining": best.fitness,
            "best_by_generation": best.history,
        }


@dataclass(frozen=True, kw_only=True)
class _SupernetObjective(Objective):
    """``loss / B + α·Σ_f exp(−τ_f)``"""

    alpha: float

    def __call__(self, model: Recommender, batch: Batch, global_size: int) -> Tensor:
        assert isinstance(model.embedding, Supernet)
        loss = super().__call__(model, batch, global_size)
        return loss + self.alpha * model.embedding.threshold_penalty()


class _SupernetHooks(StageHooks):
    def __init__(self, supernet: Supernet, alpha: float) -> None:
        self._supernet, self._alpha = supernet, alpha

    def objective(self, usual: Objective, epoch: int) -> Objective:
        return _SupernetObjective(usual.loss, alpha=self._alpha)

    def before_step(self, step: int) -> None:
        """Widths are drawn as a function of the step."""
        self._supernet.step = step

    def after_epoch(self, epoch: int) -> dict[str, float]:
        """Rows that are kept, and the share of rows that can still move their threshold."""
        rows = int(self._supernet.kept_rows().sum())
        return {"rows": rows, "active_share": self._supernet.active_share()}
