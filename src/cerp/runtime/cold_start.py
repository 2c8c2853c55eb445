"""The popular items for those of whom training knows nothing.

    score(u, i) = −1 / (1 + d_i),  d_i the number of users who took item i in training

computed in float64 and rounded once to float32: the score that a graph filter gives to items
that it does not reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.artifact.model import FloatArray, ShippedModel
from cerp.data.ids import Int32Array, Int64Array
from cerp.evaluation.popularity import popularity_scores
from cerp.runtime.rankers import Histories, Ranker
from cerp.runtime.scoring import Excluded, best_of
from cerp.runtime.selection import Lists

NOTHING: Int32Array = np.empty(0, dtype=np.int32)


class Unknown:
    """What a model knows of users and items that training never saw."""

    def __init__(self, model: ShippedModel) -> None:
        cold = model.cold_start
        self.users = NOTHING if cold is None else cold.users
        self.items = NOTHING if cold is None else cold.items
        degrees = None if cold is None else cold.degrees
        self.popular = None if degrees is None else popularity_scores(degrees)
        """The score of each item for someone without items; None: the file does not say."""
        self.num_users = len(model.users)

    def ranker(self, ranker: Ranker) -> Ranker:
        """Who ranks for everybody: the model itself where all users have training rows."""
        if not len(self.users):
            return ranker
        assert self.popular is not None, "files with such users say which items are popular"
        is_unknown = np.zeros(self.num_users, dtype=bool)
        is_unknown[self.users] = True
        return PopularForUnknown(ranker, self.popular, is_unknown)


def popular_lists(popular: FloatArray, rows: int, k: int, excluded: Excluded) -> Lists:
    """The k items with the most takers, for each of some rows."""
    return best_of(np.tile(popular, (rows, 1)), k, excluded)


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a batch asks about: the model for some of the rows, popularity for the others."""

    known: Any
    is_unknown: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.is_unknown)


class PopularForUnknown:
    """A ranker whose users without training rows get the popular items."""

    def __init__(
        self, ranker: Ranker, popular: FloatArray, is_unknown: npt.NDArray[np.bool_]
    ) -> None:
        self.ranker, self.popular, self.is_unknown = ranker, popular, is_unknown

    @property
    def multiplications(self) -> int:
        """Those of the model."""
        return self.ranker.multiplications

    def of_users(self, users: Int32Array) -> _Asked:
        """The model is asked about those it knows."""
        is_unknown = self.is_unknown[users]
        return _Asked(self.ranker.of_users(users[~is_unknown]), is_unknown)

    def of_liked(self, items: Int32Array) -> _Asked:
        """Someone with items is known by them."""
        return self.of_histories([items])

    def of_histories(self, histories: Histories) -> _Asked:
        """The same of several."""
        asked = self.ranker.of_histories(histories)
        return _Asked(asked, np.zeros(len(histories), dtype=bool))

    def scores(self, asked: _Asked, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items."""
        result = np.tile(self.popular[items], (len(asked), 1))
        if not asked.is_unknown.all():
            result[~asked.is_unknown] = self.ranker.scores(asked.known, items)
        return result

    def best(self, asked: _Asked, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each."""
        known, unknown = np.flatnonzero(~asked.is_unknown), np.flatnonzero(asked.is_unknown)
        if not len(unknown):
            return self.ranker.best(asked.known, k, excluded)
        lists = popular_lists(self.popular, len(unknown), k, _of_rows(excluded, unknown))
        if not len(known):
            return lists
        others = self.ranker.best(asked.known, k, _of_rows(excluded, known))
        return _joined(known, others, unknown, lists)

    def similar(self, item: int, k: int) -> Lists:
        """By the model."""
        return self.ranker.similar(item, k)


def _of_rows(excluded: Excluded, rows: Int64Array) -> Excluded:
    """What some of the rows do without, numbered among themselves."""
    places = np.searchsorted(rows, excluded.rows)
    kept = rows.take(places, mode="clip") == excluded.rows
    return Excluded(places[kept], excluded.items[kept], excluded.everywhere)


def _joined(first: Int64Array, lists: Lists, second: Int64Array, others: Lists) -> Lists:
    """The lists of two sets of rows, in the order of all rows."""
    shift = len(lists.columns)
    order = np.argsort(np.concatenate([first, second]))
    starts = [*lists.starts, *(start + shift for start in others.starts)]
    ends = [*lists.ends, *(end + shift for end in others.ends)]
    return Lists(
        [starts[place] for place in order],
        [ends[place] for place in order],
        np.concatenate([lists.columns, others.columns]),
        np.concatenate([lists.scores, others.scores]),
    )
