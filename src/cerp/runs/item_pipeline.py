"""The stages of a run whose model is of items alone: plan -> searched -> judged -> shipped.

Each budget has a search of its own, since how many values fit decides which are the best.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cerp.artifact import (
    ComposedEmbedding,
    Encoding,
    decode,
    embedding_bytes,
    encode,
    section_bytes,
)
from cerp.budget import Budget, parse_size
from cerp.config import Config
from cerp.data.ids import Float32Array
from cerp.data.splits import Splits
from cerp.errors import BudgetError
from cerp.evaluation.evaluate import Scorer
from cerp.export.size_limit import SizeLimit
from cerp.export.to_arrays import ship_items
from cerp.graph.history_sums import HistorySums, HistoryVectors, SummedItems
from cerp.graph.item_models import ItemModel
from cerp.graph.judging import judged_users
from cerp.graph.neighbours import popularity_levels
from cerp.graph.term import FilterTerm
from cerp.methods.item_method import ItemMethod
from cerp.runs.figures import facts_without_vectors, with_file
from cerp.runs.fitted_model import FittedModel, item_scorer
from cerp.runs.mixing import term_of_mixture
from cerp.runs.pipeline import Pipeline
from cerp.runs.products import Judged, Searched
from cerp.sizing.file_overhead import HEADER_SLACK, LONGEST_TERM, longest_facts
from cerp.sizing.precision_plan import NONE, Candidate, value_limit

SPREAD_USERS = 256
"""By whose scores it is told how far those of vectors of items spread: they are no logits, and
longer histories and vectors have larger ones."""
LEAST_BITS = 4
"""A value takes at least as many in a file."""


def item_candidate(splits: Splits, config: Config, method: ItemMethod, budget: str) -> Candidate:
    """What a budget allows; refused where not even the smallest model fits."""
    method.check(splits)
    file = None if config.max_file_size is None else parse_size(config.max_file_size)
    if budget == NONE:  # a weight from each item to each
        size, limits = SizeLimit(file=file), []
        values: int | None = splits.num_items**2
    else:
        size = SizeLimit(Budget.parse(budget).size, file)
        limits = [8 * one // LEAST_BITS for one in (size.embedding, file) if one is not None]
        values = value_limit(splits, config, budget)
    candidate = Candidate(min(limits + ([] if values is None else [values])), Encoding(), size)
    if file is not None:
        final = splits.refit(config.refit) if config.refit else splits
        room = Room(final, config, budget, candidate)
        least = len(room.file(method.smallest(final), LONGEST_TERM if config.mix else None))
        if least > file:
            beside = "the graph" if config.mix else "popularity"
            raise BudgetError(
                f"a file of {file:,} bytes is too small for {config.method} here: with the fewest "
                f"values it takes {least:,}, for header, {beside} and ids"
            )
    return candidate


@dataclass(frozen=True, eq=False)
class Room:
    """How much of a budget a model takes, by the file that it will be in."""

    splits: Splits
    """What the model is made of in the end."""
    config: Config
    budget: str
    candidate: Candidate
    judged_mixture: Callable[[SummedItems, Float32Array], dict[str, Any]] | None = None
    """What validation says of the filter beside a model with these vectors."""

    def file(self, model: ItemModel, term: FilterTerm | None = None) -> bytes:
        """The file, with the longest figures that it can have."""
        limit = self.candidate.limit
        facts = longest_facts(self.config, self.splits, self.budget, limit, has_vectors=False)
        return encode(ship_items(model, self.splits, facts, term=term), encoding_of(model))

    @cached_property
    def graph_bytes(self) -> int:
        """What filter and graph add to a file of vectors of items, whatever those are."""
        if not self.config.mix:
            return 0
        count = self.splits.num_items
        sums = HistorySums(0.5, popularity_levels(self.splits.train.item_counts))
        model = SummedItems(sums, (np.ones((count, 1), dtype=np.float32),), None, "int4")
        return len(self.file(model, LONGEST_TERM)) - len(self.file(model)) + HEADER_SLACK

    def fullness(self, model: ItemModel) -> float:
        """The share of the tightest of its limits that is taken."""
        shares, size = [len(model) / self.candidate.limit], self.candidate.size
        if size != SizeLimit():
            data = self.file(model)
            if size.file is not None:
                shares.append((len(data) + self.graph_bytes) / size.file)
            if size.embedding is not None:
                shares.append(embedding_bytes(section_bytes(data)) / size.embedding)
        return max(shares)

    def as_filed(self, model: SummedItems) -> Float32Array:
        """The vectors of items that a file of the model has, rounded."""
        embedding = decode(self.file(model)).embedding
        assert isinstance(embedding, ComposedEmbedding), "vectors of items are rows of tables"
        everything = np.arange(model.num_items, dtype=np.int32)
        return embedding.vectors(everything, model.num_items)

    def beside_filter(self, model: SummedItems) -> dict[str, Any]:
        """What validation says of the graph filter beside the model, where that was asked for."""
        if self.judged_mixture is None:
            return {}
        return {"mixture": self.judged_mixture(model, self.as_filed(model))}


def encoding_of(model: ItemModel) -> Encoding:
    """How a model is written to a file."""
    return Encoding(model.values) if isinstance(model, SummedItems) else Encoding()


class ItemPipeline(Pipeline):
    """A plan whose method finds a model of items alone."""

    method: ItemMethod

    def _searched(self) -> Searched:
        """By the place of the budget: limits in bytes and in values can be the same number."""
        if self.folder and (searched := self.folder.searched()):
            return searched
        final, found = self.final_context.splits, {}
        for place, (budget, (candidate,)) in enumerate(self.plan.candidates.items()):
            started = time.monotonic()
            judged = self._mixture_of_sums if self.config.mix else None
            room = Room(final, self.config, budget, candidate, judged)
            own = self.method.find(self.context, final, room, candidate.limit)
            seconds = round(time.monotonic() - started, 2)
            found[place] = own._replace(facts={**own.facts, "seconds": seconds})
        searched = Searched(found)
        if self.folder:
            self.folder.write_searched(searched)
        return searched

    def _mixture_of_sums(self, model: SummedItems, vectors: Float32Array) -> dict[str, Any]:
        """What the filter beside vectors of items is worth, before they see validation."""
        scorer = HistoryVectors(vectors, model.sums, self.splits.train)
        spread = scorer.score_all(judged_users(self.splits, SPREAD_USERS, self.config.seed)).std()
        return self._beside_filter(scorer, 2.0 ** round(math.log2(spread or 1)))

    def _model(self, budget: str, searched: Searched) -> FittedModel:
        (candidate,) = self.plan.candidates[budget]
        found = searched.found[list(self.plan.candidates).index(budget)]
        splits, items = self.final_context.splits, self.method.model_of(found)
        room = Room(splits, self.config, budget, candidate)
        term = term_of_mixture(found.facts.get("mixture"))

        def scorer() -> Scorer:
            return item_scorer(decode(room.file(items, term)), splits.train)

        judged = self._judged(budget, scorer, None)
        limit = candidate.limit if candidate.size == SizeLimit() else len(items)
        metric = self.config.selection_metric
        facts = facts_without_vectors(budget, limit, len(items), judged, found, metric)
        model = FittedModel(
            None,
            splits,
            self.config,
            replace(facts, **_stored_as(items), **_as_filed(judged, metric)),
            encoding_of(items),
            candidate.size,
            judged.per_user,
            term,
            item_model=items,
        )
        return replace(model, facts=with_file(model.facts, self._shipped(budget, model)))


def _as_filed(judged: Judged, metric: str) -> dict[str, Any]:
    """What the file has with all validation users, where that may be looked at."""
    return {"best_valid": judged.metrics["valid"][metric]} if "valid" in judged.metrics else {}


def _stored_as(items: ItemModel) -> dict[str, Any]:
    """What is known of vectors alone, by the names of `ModelFacts`."""
    if not isinstance(items, SummedItems):
        return {}
    books = 0 if items.codes is None else len(items.books)
    return {
        "values": items.values,
        "avg_dim": float(items.dim),
        "codebooks": books or None,
        "buckets": len(items.books[0]) if books else None,
    }
