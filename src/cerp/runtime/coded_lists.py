"""Lists by code: what a request wants, and how a ranker's scores become it.

`Runtime` translates ids on both sides of this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cerp.artifact.model import Seen
from cerp.data.ids import Int32Array, Int64Array
from cerp.errors import ConfigError
from cerp.runtime.cold_start import NOTHING, Unknown, popular_lists
from cerp.runtime.rankers import Ranker
from cerp.runtime.scoring import Excluded, best_of
from cerp.runtime.selection import Lists

Places = tuple[Int64Array, Int32Array]
"""Rows of a batch, and for each an item code."""
NOWHERE: Places = np.empty(0, dtype=np.int64), NOTHING


class Wanted(NamedTuple):
    """What a request asks for."""

    k: int
    excluded: Int32Array
    """Ascending."""
    candidates: Int32Array | None = None
    """Ascending, without those excluded; None: all items."""


class CodedLists:
    """What a model recommends.

    Parameters
    ----------
    ranker
        Who ranks, for everybody.
    unknown
        The users and items that training never saw.
    seen
        What users have in training; None: the model does not say.

    """

    def __init__(self, ranker: Ranker, unknown: Unknown, seen: Seen | None) -> None:
        self.ranker, self.unknown, self._seen = ranker, unknown, seen

    def wanted(
        self,
        k: int,
        excluded: Int32Array | None = None,
        candidates: Int32Array | None = None,
        *,
        unseen_items: bool,
    ) -> Wanted:
        """A request; items that training never saw are left out unless they are asked for."""
        excluded = NOTHING if excluded is None else excluded
        if not unseen_items and len(self.unknown.items):
            excluded = distinct(np.concatenate([excluded, self.unknown.items]))
        if candidates is None:
            return Wanted(checked_length(k), excluded)
        return Wanted(checked_length(k), excluded, np.setdiff1d(candidates, excluded))

    def seen(self, users: Int32Array) -> Places:
        """The items of some users: (position of the user among those given, item)."""
        if self._seen is None:
            raise ConfigError(
                "this model does not say what users have seen; pass exclude_seen=False, or export "
                "it with the seen items"
            )
        starts = self._seen.offsets[users].tolist()
        ends = self._seen.offsets[users + 1].tolist()
        found = [self._seen.items[start:end] for start, end in zip(starts, ends, strict=True)]
        rows = np.repeat(np.arange(len(users)), [len(items) for items in found])
        return rows, np.concatenate(found)

    def of_users(self, users: Int32Array, wanted: Wanted, hidden: Places | None) -> Lists:
        """A list for each user; ``hidden`` is what single lists do without."""
        return self._best(self.ranker.of_users(users), wanted, hidden)

    def of_liked(self, liked: Int32Array, wanted: Wanted, hidden: Places | None) -> Lists:
        """One list from items, ascending; popularity where training saw none of them."""
        telling = np.setdiff1d(liked, self.unknown.items, assume_unique=True)
        if not telling.size:
            return self._popular(wanted, hidden)
        return self._best(self.ranker.of_liked(telling), wanted, hidden)

    def _popular(self, wanted: Wanted, hidden: Places | None) -> Lists:
        """The list of someone of whom nothing is known."""
        popular = self.unknown.popular
        if popular is None:
            raise ConfigError(
                "there are no liked items to recommend from, and this file does not say which "
                "items are popular; name at least one item that was in training, or export the "
                "model with the seen items, or with popularity=True"
            )
        excluded = Excluded(*(hidden or NOWHERE), wanted.excluded)
        if wanted.candidates is not None:
            others = np.setdiff1d(np.arange(len(popular)), wanted.candidates)
            excluded = excluded._replace(everywhere=others)
        return popular_lists(popular, 1, wanted.k, excluded)

    def _best(self, asked: Any, wanted: Wanted, hidden: Places | None) -> Lists:
        rows, items = hidden or NOWHERE
        if wanted.candidates is None:
            excluded = Excluded(rows, items, wanted.excluded)
            return self.ranker.best(asked, wanted.k, excluded)
        if not wanted.candidates.size:
            none = [0] * len(asked)
            return Lists(none, none, NOTHING, NOTHING.astype(np.float32))
        columns = np.searchsorted(wanted.candidates, items)
        known = wanted.candidates.take(columns, mode="clip") == items
        scores = self.ranker.scores(asked, wanted.candidates)
        found = best_of(scores, wanted.k, Excluded(rows[known], columns[known], NOTHING))
        return found._replace(columns=wanted.candidates[found.columns])


def joined(first: Places | None, second: Places | None) -> Places | None:
    """All places of two lots, by row and item."""
    if first is None or second is None:
        return first or second
    rows = np.concatenate([first[0], second[0]])
    items = np.concatenate([first[1], second[1]])
    order = np.lexsort((items, rows))
    return rows[order], items[order]


def distinct(codes: Int32Array) -> Int32Array:
    """Ascending. ``np.unique`` would import NumPy's masked arrays for the first list."""
    codes = np.sort(codes)
    return codes[np.diff(codes, prepend=-1) > 0]


def checked_length(k: int) -> int:
    """The length of a list, which is at least 1."""
    if k < 1:
        raise ConfigError(f"a list needs k of at least 1, got {k}")
    return k
