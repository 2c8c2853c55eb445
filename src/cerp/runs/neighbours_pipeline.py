"""The stages of a run whose model is weights between items: plan -> searched -> judged -> shipped.

Each budget has a search of its own, since how many weights fit decides which are the best.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cerp.artifact import Encoding, embedding_bytes, encode, section_bytes
from cerp.budget import Budget, parse_size
from cerp.config import Config
from cerp.data.splits import Splits
from cerp.errors import BudgetError
from cerp.export.size_limit import SizeLimit
from cerp.export.to_arrays import ship_neighbours
from cerp.graph.neighbours import Neighbours, NeighbourScorer, popularity_levels
from cerp.methods.neighbours import Neighbours as NeighboursMethod
from cerp.methods.neighbours import weights_of
from cerp.runs.figures import facts_without_vectors, with_file
from cerp.runs.fitted_model import FittedModel
from cerp.runs.pipeline import Pipeline
from cerp.runs.products import Searched
from cerp.sizing.file_overhead import longest_facts
from cerp.sizing.precision_plan import Candidate, value_limit

LEAST_BITS = 4
"""A weight with its place takes more in a file."""


def neighbours_candidate(splits: Splits, config: Config, budget: str) -> Candidate:
    """What a budget allows; refused where there is no room for a single weight."""
    file = None if config.max_file_size is None else parse_size(config.max_file_size)
    size = SizeLimit(Budget.parse(budget).size, file)
    limits = [8 * one // LEAST_BITS for one in (size.embedding, file) if one is not None]
    values = value_limit(splits, config, budget)
    candidate = Candidate(min(limits + ([] if values is None else [values])), Encoding(), size)
    if file is not None:
        final = splits.refit(config.refit) if config.refit else splits
        beside = len(Room(final, config, budget, candidate).file(_no_weights(final)))
        if beside > file:
            raise BudgetError(
                f"a file of {file:,} bytes is too small for item neighbours here: without any "
                f"weight it takes {beside:,}, for header, popularity and ids of items"
            )
    return candidate


@dataclass(frozen=True, eq=False)
class Room:
    """How much of a budget weights take, by the file that they will be in."""

    splits: Splits
    """What the weights are made of in the end."""
    config: Config
    budget: str
    candidate: Candidate

    def file(self, neighbours: Neighbours) -> bytes:
        """The file, with the longest figures that it can have."""
        limit = self.candidate.limit
        facts = longest_facts(self.config, self.splits, self.budget, limit, has_vectors=False)
        return encode(ship_neighbours(neighbours, self.splits, facts), self.candidate.encoding)

    def fullness(self, neighbours: Neighbours) -> float:
        """The share of the tightest of its limits that is taken."""
        shares, size = [len(neighbours) / self.candidate.limit], self.candidate.size
        if size != SizeLimit():
            data = self.file(neighbours)
            if size.file is not None:
                shares.append(len(data) / size.file)
            if size.embedding is not None:
                shares.append(embedding_bytes(section_bytes(data)) / size.embedding)
        return max(shares)


class NeighboursPipeline(Pipeline):
    """A plan whose method finds weights between items."""

    def _searched(self) -> Searched:
        """By the place of the budget: limits in bytes and in values can be the same number."""
        if self.folder and (searched := self.folder.searched()):
            return searched
        method, final = self.method, self.final_context.splits
        assert isinstance(method, NeighboursMethod), "planning chose this pipeline for it"
        found = {}
        for place, (budget, (candidate,)) in enumerate(self.plan.candidates.items()):
            started = time.monotonic()
            room = Room(final, self.config, budget, candidate)
            own = method.find(self.context, final, room.fullness, candidate.limit)
            seconds = round(time.monotonic() - started, 2)
            found[place] = own._replace(facts={**own.facts, "seconds": seconds})
        searched = Searched(found)
        if self.folder:
            self.folder.write_searched(searched)
        return searched

    def _model(self, budget: str, searched: Searched) -> FittedModel:
        (candidate,) = self.plan.candidates[budget]
        found = searched.found[list(self.plan.candidates).index(budget)]
        splits, weights = self.final_context.splits, weights_of(found)
        judged = self._judged(budget, partial(NeighbourScorer, weights, splits.train), None)
        limit = candidate.limit if candidate.size == SizeLimit() else len(weights)
        facts = facts_without_vectors(
            budget, limit, len(weights), judged, found, self.config.selection_metric
        )
        model = FittedModel(
            None,
            splits,
            self.config,
            facts,
            candidate.encoding,
            candidate.size,
            judged.per_user,
            neighbours=weights,
        )
        return replace(model, facts=with_file(facts, self._shipped(budget, model)))


def _no_weights(splits: Splits) -> Neighbours:
    count = splits.num_items
    return Neighbours(
        offsets=np.zeros(count + 1, dtype=np.int64),
        targets=np.empty(0, dtype=np.int32),
        integers=np.empty(0, dtype=np.int8),
        scales=np.zeros(count, dtype=np.float16),
        popularity=popularity_levels(splits.train.item_counts),
    )
