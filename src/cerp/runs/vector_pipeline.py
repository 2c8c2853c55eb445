"""The stages of a run with vectors: plan -> searched -> trained -> judged -> shipped."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from cerp.artifact import ShippedModel, decode, usage
from cerp.artifact.model import LeastSquares
from cerp.data.splits import Splits
from cerp.evaluation.evaluate import Scorer
from cerp.evaluation.metrics import Metrics
from cerp.export.item_only import items_only
from cerp.export.size_limit import SizeLimit, within
from cerp.export.to_arrays import as_shipped, ship
from cerp.graph.scorers import scorer_with
from cerp.graph.term import FilterTerm
from cerp.methods.base import Context, Method
from cerp.models.recommender import Recommender
from cerp.runs.facts import ModelFacts
from cerp.runs.figures import counts_of, facts_of, with_file
from cerp.runs.fitted_model import FittedModel
from cerp.runs.mixing import filter_pairs, term_of_mixture
from cerp.runs.pipeline import Pipeline
from cerp.runs.products import Judged, Searched, Trained
from cerp.runtime import Runtime
from cerp.sizing.file_overhead import longest_facts
from cerp.sizing.precision_plan import Candidate
from cerp.training.beside_filter import FilterPairs
from cerp.training.checkpoint import read_checkpoint, write_checkpoint
from cerp.training.distributed import rank
from cerp.training.search_result import Found
from cerp.training.stages import StageResult, train


class VectorPipeline(Pipeline):
    """A plan whose method keeps vectors, trained or solved."""

    def _model(self, budget: str, searched: Searched) -> FittedModel:
        trained, valid = self._trained(budget, searched)
        found = searched.found[trained.candidate.limit]
        context = self.final_context
        recommender = _recommender(self.method, context, trained.candidate.limit, found)
        recommender.load_state_dict(trained.weights)
        recommender.eval()
        term = term_of_mixture(trained.mixture)

        def scorer() -> Scorer:
            vectors = self._scorer(recommender, context.splits, budget, trained.candidate)
            return vectors if term is None else scorer_with(term, context.splits.train, vectors)

        judged = self._judged(budget, scorer, valid if term is None else None)
        told = self.method.folding(found)
        model = FittedModel(
            recommender,
            context.splits,
            self.config,
            self._facts(budget, trained, judged, found, recommender),
            trained.candidate.encoding,
            trained.candidate.size,
            judged.per_user,
            term,
            folding=None if told is None else LeastSquares(**told),
        )
        return replace(model, facts=with_file(model.facts, self._shipped(budget, model)))

    def _facts(
        self,
        budget: str,
        trained: Trained,
        judged: Judged,
        found: Found,
        recommender: Recommender,
    ) -> ModelFacts:
        metric, told = self.config.selection_metric, self._coded.teacher_score
        teacher = None if told is None else {"name": self.config.teacher, f"valid_{metric}": told}
        beside = recommender.backbone.entity_values()
        return facts_of(budget, trained, judged, found, metric, teacher=teacher, beside=beside)

    def _trained(self, budget: str, searched: Searched) -> tuple[Trained, Metrics | None]:
        """The weights of a budget's model; how it did on validation, where that was looked at."""
        if self.folder and (trained := self.folder.trained(budget)):
            if self.config.mix and trained.mixture is None:
                trained = self._with_mixture(budget, trained, searched)
            return trained, None
        started = time.monotonic()
        candidates = self.plan.candidates[budget]
        tried = self._tried(budget, candidates, searched)
        best = max(tried, key=lambda one: one.valid.mean[self.config.selection_metric])
        recommender = best.recommender
        mixture = self._mixture(recommender, best.result.beta) if self.config.mix else None
        term = term_of_mixture(mixture)
        if self.config.refit:
            recommender = self._refitted(budget, best, searched, term)
        elif term is not None:
            # The filter takes some bytes of the file, too.
            recommender = self._as_filed(recommender, self.splits, best.candidate, term)
        trained = Trained(
            best.candidate,
            recommender.state_dict(),
            best.result.best_epoch,
            best.result.best_score,
            round(time.monotonic() - started, 2),
            self._counts(recommender, budget, best.candidate),
            mixture,
        )
        if self.folder:
            self.folder.write_trained(budget, trained)
            stages = [_stage(budget, candidate) for candidate in candidates]
            self.folder.drop_stages([*stages, _refit_stage(budget)])
        return trained, best.valid

    def _tried(
        self, budget: str, candidates: tuple[Candidate, ...], searched: Searched
    ) -> list[_Tried]:
        """Every candidate trained to its best epoch, as its file would have it."""
        # Candidates of one limit differ in precision alone: they are one training.
        trainings: dict[int, tuple[Recommender, StageResult]] = {}
        tried = []
        for candidate in candidates:
            limit, stage = candidate.limit, _stage(budget, candidate)
            if limit not in trainings:
                trainings[limit] = self._train(self.context, stage, limit, searched)
            recommender, result = trainings[limit]
            filed = self._as_filed(recommender, self.splits, candidate)
            scorer = self._scorer(filed, self.splits, budget, candidate)
            valid = self._metrics(scorer, self.splits, "valid")
            tried.append(_Tried(candidate, filed, result, valid))
        return tried

    # Beside the filter

    def _with_mixture(self, budget: str, trained: Trained, searched: Searched) -> Trained:
        """Vectors that are trained already, beside the filter where that is better."""
        started, candidate = time.monotonic(), trained.candidate
        found = searched.found[candidate.limit]
        recommender = _recommender(self.method, self.context, candidate.limit, found)
        recommender.load_state_dict(trained.weights)
        mixture = self._mixture(recommender.eval())
        term = term_of_mixture(mixture)
        if term is not None:
            recommender = self._as_filed(recommender, self.splits, candidate, term)
        seconds = round(trained.seconds + time.monotonic() - started, 2)
        mixed = replace(
            trained,
            weights=recommender.state_dict(),
            seconds=seconds,
            counts=counts_of(recommender),
            mixture=mixture,
        )
        if self.folder:
            self.folder.write_trained(budget, mixed)
        return mixed

    def _mixture(
        self, recommender: Recommender, learned_beta: float | None = None
    ) -> dict[str, Any]:
        """What the filter beside the vectors is worth, before they see validation in a refit."""
        facts = self._beside_filter(recommender.scorer())
        return facts if learned_beta is None else {**facts, "learned_beta": learned_beta}

    @cached_property
    def _pairs(self) -> FilterPairs:
        """What the filter gives pairs of the data that epochs are selected with."""
        return filter_pairs(self.splits.train, self.context.filter_search.plain.exponents)

    def _beside(self, context: Context) -> FilterPairs | None:
        """The same of a context's data, where vectors are trained with it."""
        if self.config.mix != "together":
            return None
        if context is self.context:
            return self._pairs
        found = self.context.filter_search.plain
        return filter_pairs(context.splits.train, found.exponents)

    # Training

    def _refitted(
        self, budget: str, best: _Tried, searched: Searched, term: FilterTerm | None
    ) -> Recommender:
        """The selected candidate, trained once more on more data for as many epochs."""
        recommender, _ = self._train(
            self.final_context,
            _refit_stage(budget),
            best.candidate.limit,
            searched,
            best.result.best_epoch,
        )
        return self._as_filed(recommender, self.final_context.splits, best.candidate, term)

    def _train(
        self,
        context: Context,
        stage: str,
        limit: int,
        searched: Searched,
        epochs: int | None = None,
    ) -> tuple[Recommender, StageResult]:
        recommender = _recommender(self.method, context, limit, searched.found[limit])
        kept = self.folder.stage(stage) if self.folder else None
        if kept and kept.exists():
            tensors, facts = read_checkpoint(kept)
            recommender.load_state_dict(tensors)
            return recommender.eval(), StageResult(**facts)
        if not self.method.is_trained:
            return self._solved(context, recommender, searched.found[limit])
        source = self.method.source(context)
        trained = recommender if source is None else context.recommender(source)
        result = train(
            trained,
            context.splits,
            self.config.train,
            seed=self.config.seed + 1,
            label=stage,
            options=self.options,
            hooks=self.method.hooks(context, trained),
            epochs=epochs,
            loss=self.config.loss,
            selection_metric=self.config.selection_metric,
            teacher=context.teacher,
            beside=self._beside(context),
            checkpointing=context.checkpointing(stage),
        )
        if source is not None:
            recommender.backbone.load_state_dict(trained.backbone.state_dict())
            self.method.compress(context, source, recommender.embedding)
            recommender.eval()
            if epochs is None:  # else validation is learned from
                valid = self._metrics(recommender.scorer(), context.splits, "valid")
                result = result._replace(best_score=valid.mean[self.config.selection_metric])
        if self.folder and kept and rank() == 0:
            self.folder.add_curves(stage, result.history)
            write_checkpoint(kept, recommender.state_dict(), result._asdict())
        return recommender, result

    def _solved(
        self, context: Context, recommender: Recommender, found: Found
    ) -> tuple[Recommender, StageResult]:
        """The recommender with vectors that are no matter of training."""
        vectors, metric = self.method.solved(context, found), self.config.selection_metric
        [table] = recommender.embedding.stored().tables
        with torch.no_grad():
            table.weight.copy_(torch.from_numpy(vectors))
        return recommender.eval(), StageResult([], 0, found.facts[f"valid_{metric}"], metric)

    # As its file has it

    def _as_filed(
        self,
        recommender: Recommender,
        splits: Splits,
        candidate: Candidate,
        term: FilterTerm | None = None,
    ) -> Recommender:
        """The recommender with the values of its file, where the file rounds them."""
        if candidate.size == SizeLimit() and candidate.encoding.values == "fp32":
            return recommender
        if self.config.item_only:  # its file cannot give back what users have
            return recommender
        # With the longest facts: what fits now fits with the figures that are not known yet.
        budget, full = max(self.config.budgets, key=len), splits.num_entities * self.config.dim
        facts = longest_facts(self.config, splits, budget, full)
        vectors = ship(recommender, splits, self.config.backbone, facts=facts)
        shipped = replace(vectors, filter=term)
        return as_shipped(recommender, decode(within(shipped, candidate.encoding, candidate.size)))

    def _item_file(
        self, recommender: Recommender, splits: Splits, budget: str, candidate: Candidate
    ) -> ShippedModel:
        """What a file without users has of a recommender, as `FittedModel.file` will write it."""
        assignment = counts_of(recommender).get("assignment")
        facts = longest_facts(self.config, splits, budget, candidate.limit, assignment)
        shipped = items_only(ship(recommender, splits, self.config.backbone, facts=facts))
        return decode(within(shipped, candidate.encoding, candidate.size))

    def _counts(
        self, recommender: Recommender, budget: str, candidate: Candidate
    ) -> dict[str, Any]:
        """What is stored: of a file without users, that of items."""
        counts = counts_of(recommender)
        if not self.config.item_only:
            return counts
        file = self._item_file(recommender, self.final_context.splits, budget, candidate)
        stored = usage(file).stored_values
        return {**counts, "nnz": stored, "paper_count": stored, "stored_count": stored}

    def _scorer(
        self, recommender: Recommender, splits: Splits, budget: str, candidate: Candidate
    ) -> Scorer:
        """Scores as the model will be used: without users, everyone is folded in."""
        if not self.config.item_only:
            return recommender.scorer()
        file = self._item_file(recommender, splits, budget, candidate)
        return Runtime(file).with_histories(splits.train)


@dataclass(frozen=True, eq=False)
class _Tried:
    """A candidate after training."""

    candidate: Candidate
    recommender: Recommender
    result: StageResult
    valid: Metrics


def _recommender(method: Method, context: Context, limit: int, found: Found) -> Recommender:
    return context.recommender(method.embedding(context, limit, found))


def _stage(budget: str, candidate: Candidate) -> str:
    """What the training of a candidate is called."""
    if candidate.size == SizeLimit():
        return f"train {budget}"
    return f"train {budget} {candidate.encoding.values}"


def _refit_stage(budget: str) -> str:
    return f"refit {budget}"
