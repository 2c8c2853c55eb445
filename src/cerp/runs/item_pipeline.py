"""The stages of a run whose model is of items alone: plan -> searched -> judged -> shipped.

Each budget has a search of its own, since how many values fit decides which are the best.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
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
from cerp.graph.history_sums import SummedItems
from cerp.graph.item_models import ItemModel
from cerp.methods.item_method import ItemMethod
from cerp.runs.figures import facts_without_vectors, with_file
from cerp.runs.fitted_model import FittedModel, item_scorer
from cerp.runs.pipeline import Pipeline
from cerp.runs.products import Judged, Searched
from cerp.sizing.file_overhead import longest_facts
from cerp.sizing.precision_plan import NONE, Candidate, value_limit

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
        least = len(Room(final, config, budget, candidate).file(method.smallest(final)))
        if least > file:
            raise BudgetError(
                f"a file of {file:,} bytes is too small for {config.method} here: with the fewest "
                f"values it takes {least:,}, for header, popularity and ids of items"
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

    def file(self, model: ItemModel) -> bytes:
        """The file, with the longest figures that it can have."""
        limit = self.candidate.limit
        facts = longest_facts(self.config, self.splits, self.budget, limit, has_vectors=False)
        return encode(ship_items(model, self.splits, facts), encoding_of(model))

    def fullness(self, model: ItemModel) -> float:
        """The share of the tightest of its limits that is taken."""
        shares, size = [len(model) / self.candidate.limit], self.candidate.size
        if size != SizeLimit():
            data = self.file(model)
            if size.file is not None:
                shares.append(len(data) / size.file)
            if size.embedding is not None:
                shares.append(embedding_bytes(section_bytes(data)) / size.embedding)
        return max(shares)

    def as_filed(self, model: SummedItems) -> Float32Array:
        """The vectors of items that a file of the model has, rounded."""
        embedding = decode(self.file(model)).embedding
        assert isinstance(embedding, ComposedEmbedding), "vectors of items are rows of tables"
        everything = np.arange(model.num_items, dtype=np.int32)
        return embedding.vectors(everything, model.num_items)


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
            room = Room(final, self.config, budget, candidate)
            own = self.method.find(self.context, final, room, candidate.limit)
            seconds = round(time.monotonic() - started, 2)
            found[place] = own._replace(facts={**own.facts, "seconds": seconds})
        searched = Searched(found)
        if self.folder:
            self.folder.write_searched(searched)
        return searched

    def _model(self, budget: str, searched: Searched) -> FittedModel:
        (candidate,) = self.plan.candidates[budget]
        found = searched.found[list(self.plan.candidates).index(budget)]
        splits, items = self.final_context.splits, self.method.model_of(found)
        room = Room(splits, self.config, budget, candidate)

        def scorer() -> Scorer:
            return item_scorer(decode(room.file(items)), splits.train)

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
