"""The stages of a run, each of which takes a product and leaves the next: what all kinds share.

plan -> learn codes, where rows are learned -> search once for all budgets -> train what each
may keep -> select on validation -> judge, the test part once -> ship.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import torch

from cerp import methods
from cerp._version import __version__
from cerp.artifact import embedding_bytes, section_bytes
from cerp.config import Config, RunOptions
from cerp.data.ids import Float32Array
from cerp.data.splits import Part, Splits
from cerp.errors import ConfigError
from cerp.evaluation.cold_start import with_popularity
from cerp.evaluation.evaluate import Scorer, cutoffs_with, evaluate, users_to_judge
from cerp.evaluation.id_leak import id_leak
from cerp.evaluation.metrics import Metrics
from cerp.graph.filter_search import FilterSearch
from cerp.methods.base import Context, Method
from cerp.models.backbones.base import DotScorer
from cerp.runs.fitted_model import FittedModel
from cerp.runs.folder import RunFolder
from cerp.runs.mixing import mixture_facts
from cerp.runs.products import Coded, Judged, Plan, Searched, Shipped
from cerp.runs.shared_filter import SharedFilterSearch
from cerp.training.distributed import all_judge, rank
from cerp.training.stages import score_memory


@dataclass(frozen=True, eq=False)
class Pipeline(ABC):
    """A plan at work: every stage is done once, and read where its product is there."""

    plan: Plan
    splits: Splits
    options: RunOptions
    teach: Callable[[], Float32Array] | None = None
    """Gives the final vectors of a teacher, where the configuration has one."""

    def models(self) -> list[FittedModel]:
        """One model for each budget, in the order given."""
        searched = self._searched()
        return [self._model(budget, searched) for budget in self.plan.candidates]

    def result(self, models: list[FittedModel]) -> dict[str, Any]:
        """What ``metrics.json`` holds."""
        # Native order may read the test set off the ids: its results say how much, if there is one.
        may_leak = self.config.ordering == "native" and len(self.splits.test)
        leak = _leak_of(self.splits) if may_leak else None
        return {
            "config": self.config.to_dict(),
            "fingerprint": self.splits.fingerprint,
            "version": __version__,
            "device": _device_name(torch.device(self.options.device)),
            # On a CPU sums depend, in their last bits, on how many threads share them.
            "threads": torch.get_num_threads(),
            "id_leak": leak,
            "models": [model.facts.to_json() for model in models],
        }

    @property
    def config(self) -> Config:
        """What is trained."""
        return self.plan.config

    @cached_property
    def folder(self) -> RunFolder | None:
        """Where products are kept; None: in memory."""
        return None if self.options.folder is None else RunFolder(self.options.folder)

    @cached_property
    def method(self) -> Method:
        """How the embedding is kept within its budget."""
        return methods.method(self.config.method, self.config.method_options)

    @cached_property
    def context(self) -> Context:
        """What the method may know, on the data that epochs are selected with."""
        plan, coded = self.plan, self._coded
        return Context(
            self.splits,
            self.config,
            self.options,
            plan.limits,
            plan.positions,
            coded.codes,
            coded.rows,
            coded.teacher,
            self._shared_filter_search,
        )

    @cached_property
    def final_context(self) -> Context:
        """The same on the data that models are trained on in the end."""
        context, refit = self.context, self.config.refit
        if not refit:
            return context
        # Validation is learned from here: the filter is the one that it chose before.
        search = context.filter_search
        return replace(context, splits=self.splits.refit(refit), given_filter_search=search)

    @property
    def _shared_filter_search(self) -> FilterSearch | None:
        """The search for the graph filter, where this run shares it with others."""
        config, options = self.config, self.options
        if options.shared is None:
            return None
        metric, seed = config.selection_metric, config.seed
        return SharedFilterSearch(self.splits, metric, seed, options.quiet, options.shared)

    # Code

    @cached_property
    def _coded(self) -> Coded:
        """Which rows entities get, where that is learned."""
        if self.folder and (coded := self.folder.coded()):
            return coded
        plan, started = self.plan, time.monotonic()
        teacher = None if self.teach is None else self.teach()
        context = Context(
            self.splits,
            self.config,
            self.options,
            plan.limits,
            plan.positions,
            teacher=teacher,
        )
        learned = self.method.codes(context)
        if learned is None:
            return Coded(None, 0.0)
        seconds = round(time.monotonic() - started, 2)
        if teacher is None:
            coded = Coded(learned.codes, seconds)
        else:
            score = self._teacher_score(teacher)
            coded = Coded(learned.codes, seconds, learned.books, teacher, score)
        if self.folder:
            self.folder.write_coded(coded)
        return coded

    def _teacher_score(self, teacher: Float32Array) -> float:
        """The selection metric of a teacher on validation: its vectors are all that counts."""
        vectors = torch.from_numpy(teacher).to(self.options.device)
        users, items = vectors[: self.splits.num_users], vectors[self.splits.num_users :]
        scorer = DotScorer(users.__getitem__, items)
        return self._metrics(scorer, self.splits, "valid").mean[self.config.selection_metric]

    # Search

    def _searched(self) -> Searched:
        if self.folder and (searched := self.folder.searched()):
            return searched
        context, started = self.context, time.monotonic()
        search = self.method.search(context)
        seconds = round(time.monotonic() - started + self._coded.seconds, 2)
        searched = Searched(
            {
                limit: found._replace(facts={**found.facts, "seconds": seconds})
                for limit, found in search.found.items()
            }
        )
        if self.folder:
            self.folder.add_curves(self.method.search_stage, search.history)
            self.folder.write_searched(searched)
        return searched

    # One model

    @abstractmethod
    def _model(self, budget: str, searched: Searched) -> FittedModel:
        """The model of a budget, from what was found for it to its file."""

    def _beside_filter(self, vectors: Scorer, unit: float = 1.0) -> dict[str, Any]:
        """What the filter beside vectors is worth, whose scores spread by the unit."""
        search = self.context.filter_search
        return mixture_facts(
            self.splits,
            vectors,
            search.sharpened if self.config.mix == "sharp" else search.plain,
            seed=self.config.seed,
            quiet=self.options.quiet,
            unit=unit,
        )

    # Judge

    def _metrics(self, scorer: Scorer, splits: Splits, part: Part) -> Metrics:
        ks = cutoffs_with(self.config.selection_metric)
        device = torch.device(self.options.device)
        return evaluate(
            with_popularity(scorer, splits.train),
            splits,
            on=part,
            ks=ks,
            users=users_to_judge(splits, part, self.config.judge_users),
            memory=score_memory(device),
            sharing=all_judge(device),
            label=None if self.options.quiet or rank() else f"judge on {part}",
        )

    def _judged(
        self, budget: str, make_scorer: Callable[[], Scorer], valid: Metrics | None
    ) -> Judged:
        """The figures of a model; validation does not count for one that learned it.

        The scorer is made only where there is something to judge: LightGCN's takes a while.
        """
        if self.folder and (judged := self.folder.judged(budget)):
            return judged
        started = time.monotonic()
        scorer, splits = make_scorer(), self.final_context.splits
        per_user: dict[str, Metrics] = {}
        if not self.config.refit:
            per_user["valid"] = valid or self._metrics(scorer, splits, "valid")
        if len(splits.test) and self.options.reads_test:
            per_user["test"] = self._metrics(scorer, splits, "test")
        seconds = round(time.monotonic() - started, 2)
        means = {part: metrics.summary() for part, metrics in per_user.items()}
        judged = Judged(means, seconds, per_user)
        if self.folder:
            self.folder.write_judged(budget, judged)
        return judged

    # Ship

    def _shipped(self, budget: str, model: FittedModel) -> Shipped:
        if self.folder and (shipped := self.folder.shipped(budget)):
            return shipped
        data: bytes | None = None
        try:
            data = model.file()
            sections = section_bytes(data)
            shipped = Shipped(sections.get("codes", 0), embedding_bytes(sections), len(data))
        except ConfigError as error:
            shipped = Shipped(why_no_file=str(error))
        if self.folder:
            self.folder.write_shipped(budget, shipped, data)
        return shipped


@lru_cache(maxsize=1)
def _leak_of(splits: Splits) -> dict[str, Any]:
    """Kept, because runs of one process mostly have the same data: Gowalla takes 20 seconds."""
    return id_leak(splits).summary()


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
