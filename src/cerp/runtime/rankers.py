"""Who ranks: the vectors of a model, or its graph filter.

A *ranker* turns users, or the items that someone likes, into what it asks about, and
that into scores and lists. `Runtime` knows no more of a model than that.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np

from cerp.artifact.model import FloatArray, Seen, ShippedModel
from cerp.data.ids import Int32Array
from cerp.graph.edges import Edges
from cerp.graph.filter import GraphFilter
from cerp.graph.term import FilterTerm
from cerp.runtime.folding import AlsFoldIn, FoldIn, SummedHistory, mean_user
from cerp.runtime.limits import Limits
from cerp.runtime.scoring import DotHead, Excluded, Queries, ScoringHead, best_of
from cerp.runtime.selection import Lists
from cerp.runtime.tower import TowerHead
from cerp.runtime.vectors import vectors_of

Histories = list[Int32Array]


class Ranker(Protocol):
    """What the runtime asks of a model."""

    @property
    def multiplications(self) -> int:
        """For one list, at most."""

    def of_users(self, users: Int32Array) -> Any:
        """How to ask for users of training."""

    def of_liked(self, items: Int32Array) -> Any:
        """How to ask for someone new who likes some items, distinct and ascending."""

    def of_histories(self, histories: Histories) -> Any:
        """How to ask for several such, who may like nothing."""

    def scores(self, asked: Any, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items, (number of users, number of items)."""

    def best(self, asked: Any, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each."""

    def similar(self, item: int, k: int) -> Lists:
        """The k items most like one, itself left out: one row."""


class VectorRanker:
    """By the vectors of users and items, through the model's head."""

    def __init__(self, model: ShippedModel, limits: Limits) -> None:
        self.num_users, self.tastes, self.limits = len(model.users), model.tastes, limits
        self.seen = model.seen
        self.vectors, self.folding, self.sums = vectors_of(model), model.folding, model.sums
        self.products = DotHead(self.vectors.items)
        self.head: ScoringHead = self.products
        if model.head == "tower":
            self.head = TowerHead(self.vectors.items, model.weights)

    @property
    def multiplications(self) -> int:
        """Of the head."""
        return self.head.multiplications

    def of_users(self, users: Int32Array) -> Queries:
        """Queries made of their vectors, or of the vectors of what they took."""
        if self.sums is not None:
            assert self.seen is not None, "there are users where a filter has their graph"
            offsets, items = self.seen.offsets, self.seen.items
            return self.of_histories(
                [items[offsets[user] : offsets[user + 1]] for user in users.tolist()]
            )
        return self.head.queries(self.vectors.users(users))

    def of_liked(self, items: Int32Array) -> Queries:
        """One query, by folding in."""
        return self.of_histories([items])

    def of_histories(self, histories: Histories) -> Queries:
        """Queries by folding in."""
        vectors = [self.fold_in.vector(items) for items in histories]
        return np.stack(vectors) if vectors else np.empty((0, self.vectors.items.shape[1]))

    @cached_property
    def fold_in(self) -> FoldIn | AlsFoldIn | SummedHistory:
        """Made when someone new comes first."""
        items = self.vectors.items
        if self.sums is not None:
            return SummedHistory(self.sums, items)
        self.limits.refuse_fold_in(self.num_users + len(items), items.shape[1])
        if self.tastes is not None:
            return FoldIn.of_tastes(self.tastes, items)
        if self.folding is not None:
            mean = mean_user(self.vectors.users, self.num_users, items.shape[1])
            return AlsFoldIn(mean, items, self.folding)
        return FoldIn.of_users(self.vectors.users, self.num_users, items)

    def scores(self, asked: Queries, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items."""
        return self.head.scores(asked, items)

    def best(self, asked: Queries, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each query."""
        return self.head.best(asked, k, excluded)

    def similar(self, item: int, k: int) -> Lists:
        """By the cosine of vectors; for a tower, of those that it is fed with."""
        return self.products.similar(item, k)


class HistoryModel(Protocol):
    """What scores items from the items that someone has."""

    @property
    def num_items(self) -> int:
        """Of all that can be scored."""

    def score_history(self, history: Int32Array) -> FloatArray:
        """Exact scores of all items for someone with these, distinct and ascending."""


class HistoryRanker:
    """By the items of whoever asks: nobody needs to be known."""

    model: HistoryModel

    def of_liked(self, items: Int32Array) -> Histories:
        """The items themselves."""
        return [items]

    def of_histories(self, histories: Histories) -> Histories:
        """The same of several."""
        return histories

    def scores(self, asked: Histories, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items."""
        rows = [self.model.score_history(history)[items] for history in asked]
        return np.stack(rows) if rows else np.empty((0, self.model.num_items), dtype=np.float32)

    def best(self, asked: Histories, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each history."""
        return best_of(self.scores(asked, slice(None)), k, excluded)

    def similar(self, item: int, k: int) -> Lists:
        """What someone gets who took the item alone."""
        alone = np.array([item], dtype=np.int32)
        return self.best([alone], k, Excluded(np.zeros(1, dtype=np.int64), alone, alone[:0]))


class FilterRanker(HistoryRanker):
    """By paths through the training graph, from the items of a user alone."""

    model: GraphFilter

    def __init__(self, seen: Seen, num_items: int, term: FilterTerm) -> None:
        edges = Edges(seen.offsets, seen.items, num_items)
        self.model = GraphFilter(edges, term.exponents, term.sharpening)
        self.mixing = term.mixing

    @property
    def multiplications(self) -> int:
        """A list walks every edge at most once in each direction, and again to be sharpened."""
        walks = 1 if self.model.sharpening is None else 1 + self.model.sharpening.times
        return walks * (2 * len(self.model.edges) + self.model.num_items)

    def of_users(self, users: Int32Array) -> Histories:
        """What they took."""
        return [self.model.edges.history(user) for user in users.tolist()]

    def best(self, asked: Histories, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each history."""
        ends = np.searchsorted(excluded.rows, np.arange(1, len(asked)))
        hidden = np.split(excluded.items, ends)
        items, scores = self.model.best(asked, k, hidden=hidden, without=excluded.everywhere)
        row, rank = np.nonzero(items >= 0)
        ends = np.searchsorted(row, np.arange(len(asked)), side="right").tolist()
        return Lists([0, *ends[:-1]], ends, items[row, rank], scores[row, rank])
