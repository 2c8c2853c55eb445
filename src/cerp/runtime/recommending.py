"""`Runtime`: recommendations from a shipped model, original ids in and out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from cerp.artifact.model import FloatArray, ShippedModel
from cerp.budget import parse_size
from cerp.data.ids import Id, Ids, Int32Array, Int64Array
from cerp.errors import ConfigError
from cerp.runtime.mixture_ranker import ranker_of
from cerp.runtime.scoring import Excluded, best_of, blocks
from cerp.runtime.selection import Lists
from cerp.runtime.vectors import memory_of

SCORE_BYTES = 24 * 2**20
"""Size of a matrix of scores, unless that of one user is larger. Below 32 MB the allocator
of Linux keeps the memory from one request to the next, which saves a tenth of the time."""


class Recommendation(NamedTuple):
    """One place of a list."""

    item: Id
    """Original id."""
    score: float
    """The model's own: higher is better, and that is all it means."""


MAX_MEMORY = 4 << 30
"""Bytes that recommending from a model may take unless told otherwise: 4 GiB."""


def _refuse_above(max_memory: int | str, needed: int) -> None:
    most = parse_size(max_memory, "max_memory") if isinstance(max_memory, str) else max_memory
    if needed > most:
        raise ConfigError(
            f"recommending from this model takes about {needed:,} bytes, more than "
            f"max_memory={most}; give more if the file is one that you trust"
        )


class Runtime:
    """A model ready to recommend; see `cerp.runtime` for its arithmetic.

    Nothing changes after construction but what is computed once on first use,
    so threads may share one.

    Parameters
    ----------
    model
        What a model file holds; `cerp.load` reads one.
    file_bytes
        The size of that file, where it is known.
    max_memory
        What it may take, see `cerp.load`.

    """

    def __init__(
        self,
        model: ShippedModel,
        *,
        file_bytes: int | None = None,
        max_memory: int | str = MAX_MEMORY,
    ) -> None:
        if model.is_lookup:
            raise ConfigError(
                f"the file holds vectors of {len(model.items):,} ids for lookups and no "
                "recommender; look them up with cerp.load(path).vectors(ids)"
            )
        self.model, self.file_bytes = model, file_bytes
        _refuse_above(max_memory, memory_of(model))
        self._ranker = ranker_of(model)

    def __repr__(self) -> str:
        """Who is in it, how it scores, what it takes, and how good it was."""
        size = None if self.file_bytes is None else f"{self.file_bytes:,} bytes"
        precision = None if self.model.precision is None else f"values in {self.model.precision}"
        ndcg = self.test_ndcg
        numbers = f", {self.model.dim} numbers a vector" if self.model.embedding else ""
        lines = [
            f"Runtime: {len(self.users):,} users x {len(self.items):,} items",
            f"  scores: {self.scoring}{numbers}",
            f"  file: {', '.join(filter(None, (size, precision)))}" if size or precision else None,
            None if ndcg is None else f"  test NDCG@10: {ndcg:.4f}",
        ]
        return "\n".join(line for line in lines if line is not None)

    @property
    def users(self) -> Ids:
        """Original ids of the users there are."""
        return self.model.users

    @property
    def items(self) -> Ids:
        """Original ids of the items there are."""
        return self.model.items

    @property
    def titles(self) -> list[str] | None:
        """What to call items, in the order of `items`, where the file says it."""
        return self.model.titles

    @property
    def trained_on(self) -> str | None:
        """The fingerprint of its training data, where the file says it."""
        found = self.model.facts.get("fingerprint")
        return found if isinstance(found, str) else None

    @property
    def test_ndcg(self) -> float | None:
        """NDCG@10 on the test part when it was trained, where the file says it."""
        found: object = self.model.facts
        for key in ("metrics", "test", "ndcg@10"):
            found = found.get(key) if isinstance(found, dict) else None
        return float(found) if isinstance(found, int | float) else None

    @property
    def scoring(self) -> str:
        """How a score comes about, in words."""
        if self.model.head is None:
            return "graph filter"
        words = "dot product" if self.model.head == "dot" else "tower (MLP)"
        layers = self.model.layers
        passes = "1 layer" if layers == 1 else f"{layers} layers"
        words += f" after {passes} of propagation" if layers else ""
        return words if self.model.filter is None else f"{words}, with graph filter"

    @property
    def takes_liked_items(self) -> bool:
        """Whether `recommend_for` can do without a known user: everywhere but with a tower."""
        return self.model.head != "tower"

    @property
    def multiplications(self) -> int:
        """What one list takes at most: products of vectors and weights, steps along edges."""
        return self._ranker.multiplications

    def recommend(
        self,
        user: Id,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        exclude: Iterable[Id] = (),
        candidates: Iterable[Id] | None = None,
    ) -> list[Recommendation]:
        """The k best items for a user.

        Parameters
        ----------
        user
            Original id.
        k
            How many; fewer come back when fewer are left.
        exclude_seen
            Leave out what the user has in training. The file must say what that is:
            those with a graph do, others if exported so.
        exclude
            More items to leave out.
        candidates
            Choose from these items only.

        Returns
        -------
        list of Recommendation
            Best first; equal scores in native item order.

        """
        return self.recommend_many(
            [user], k, exclude_seen=exclude_seen, exclude=exclude, candidates=candidates
        )[0]

    def recommend_many(
        self,
        users: Iterable[Id],
        k: int = 10,
        *,
        exclude_seen: bool = True,
        exclude: Iterable[Id] = (),
        candidates: Iterable[Id] | None = None,
    ) -> list[list[Recommendation]]:
        """What `recommend` gives for each of several users, in less time.

        Parameters
        ----------
        users
            Original ids.
        k, exclude_seen, exclude, candidates
            As in `recommend`, the same for all users.

        Returns
        -------
        list of list of Recommendation
            One list for each user, in the order given.

        """
        codes = self.users.encode(users, what="user")
        wanted = self._wanted(k, exclude, candidates)
        found: list[list[Recommendation]] = []
        for block in blocks(len(codes), 4 * len(self.items), SCORE_BYTES):
            seen = self._seen(codes[block]) if exclude_seen else None
            found += self._best(self._ranker.of_users(codes[block]), wanted, seen)
        return found

    def recommend_for(
        self,
        liked: Iterable[Id],
        k: int = 10,
        *,
        exclude_seen: bool = True,
        exclude: Iterable[Id] = (),
        candidates: Iterable[Id] | None = None,
    ) -> list[Recommendation]:
        """The k best items for someone who was not there in training, from items they like.

        `cerp.runtime.folding` has the equation for vectors. A graph filter needs none: it gives
        what a user of training with the same items gets. Models that score by a tower cannot
        do it.

        Parameters
        ----------
        liked
            Original ids of items, at least one.
        k, exclude, candidates
            As in `recommend`.
        exclude_seen
            Leave out the liked items.

        Returns
        -------
        list of Recommendation
            Best first.

        """
        if not self.takes_liked_items:
            raise ConfigError(
                "a model that scores by a tower (an MLP) cannot recommend from liked items: items "
                "and users meet in the tower only, so liked items say nothing about a user's "
                "vector. Train 'lightgcn' or 'mf' for that"
            )
        codes = np.unique(self.items.encode(liked, what="item"))
        if not codes.size:
            raise ConfigError("there are no liked items to recommend from; name at least one")
        seen = (np.zeros(len(codes), dtype=np.int64), codes) if exclude_seen else None
        asked = self._ranker.of_liked(codes)
        return self._best(asked, self._wanted(k, exclude, candidates), seen)[0]

    def similar_items(self, item: Id, k: int = 10) -> list[Recommendation]:
        """The k items most like one: ``cos(v_i, v_j)`` of the vectors that the model ranks with.

        For a tower, which ranks by no vectors, of those that it is fed with. A graph filter
        alone ranks them as for someone who took nothing but the item.

        Parameters
        ----------
        item
            Original id.
        k
            How many; the item itself is left out.

        Returns
        -------
        list of Recommendation
            Most alike first; the scores are cosines, or the filter's.

        """
        code = int(self.items.encode([item], what="item")[0])
        return self._named(self._ranker.similar(code, _checked(k)))[0]

    def score(self, user: Id, items: Iterable[Id]) -> FloatArray:
        """Scores of some items for a user.

        Parameters
        ----------
        user, items
            Original ids.

        Returns
        -------
        array of float32, (number of items,)
            In the order given.

        """
        asked = self._ranker.of_users(self.users.encode([user], what="user"))
        codes = self.items.encode(items, what="item")
        return self._ranker.scores(asked, codes).reshape(-1)

    def score_all(self, users: Int32Array) -> FloatArray:
        """Scores of every item, so that ``cerp.evaluate(runtime, splits)`` can judge a file.

        Parameters
        ----------
        users
            Codes: places in `users`, from 0.

        Returns
        -------
        array of float32, (len(users), number of items)
            Items in the order of `items`.

        """
        return self._ranker.scores(self._ranker.of_users(users), slice(None))

    def seen(self, user: Id) -> list[Id]:
        """What a user has in training.

        Parameters
        ----------
        user
            Original id.

        Returns
        -------
        list of ids
            In native item order.

        """
        return self.items.decode(self._seen(self.users.encode([user], what="user"))[1])

    def _seen(self, users: Int32Array) -> Places:
        """The items of some users: (position of the user among those given, item)."""
        if self.model.seen is None:
            raise ConfigError(
                "this model does not say what users have seen; pass exclude_seen=False, or export "
                "it with the seen items"
            )
        starts = self.model.seen.offsets[users].tolist()
        ends = self.model.seen.offsets[users + 1].tolist()
        found = [self.model.seen.items[start:end] for start, end in zip(starts, ends, strict=True)]
        rows = np.repeat(np.arange(len(users)), [len(items) for items in found])
        return rows, np.concatenate(found)

    def _wanted(self, k: int, exclude: Iterable[Id], candidates: Iterable[Id] | None) -> _Wanted:
        excluded = np.unique(self.items.encode(exclude, what="item"))
        if candidates is None:
            return _Wanted(_checked(k), excluded)
        chosen = self.items.encode(candidates, what="item")
        return _Wanted(_checked(k), excluded, np.setdiff1d(chosen, excluded))

    def _best(self, asked: Any, wanted: _Wanted, seen: Places | None) -> list[list[Recommendation]]:
        rows, items = seen or NOWHERE
        if wanted.candidates is None:
            excluded = Excluded(rows, items, wanted.excluded)
            return self._named(self._ranker.best(asked, wanted.k, excluded))
        if not wanted.candidates.size:
            return [[] for _ in range(len(asked))]
        columns = np.searchsorted(wanted.candidates, items)
        known = wanted.candidates.take(columns, mode="clip") == items
        scores = self._ranker.scores(asked, wanted.candidates)
        found = best_of(scores, wanted.k, Excluded(rows[known], columns[known], NOTHING))
        return self._named(found._replace(columns=wanted.candidates[found.columns]))

    def _named(self, found: Lists) -> list[list[Recommendation]]:
        """Lists by original ids."""
        places = list(map(Recommendation, self.items.decode(found.columns), found.scores.tolist()))
        return [places[start:end] for start, end in zip(found.starts, found.ends, strict=True)]


class _Wanted(NamedTuple):
    """What a request asks for, by code."""

    k: int
    excluded: Int32Array
    """Ascending."""
    candidates: Int32Array | None = None
    """Ascending, without those excluded."""


Places = tuple[Int64Array, Int32Array]
"""Rows of a batch, and for each an item code."""
NOTHING: Int32Array = np.empty(0, dtype=np.int32)
NOWHERE: Places = np.empty(0, dtype=np.int64), NOTHING


def _checked(k: int) -> int:
    if k < 1:
        raise ConfigError(f"a list needs k of at least 1, got {k}")
    return k
