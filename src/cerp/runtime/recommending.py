"""`Runtime`: recommendations from a shipped model, original ids in and out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from cerp.artifact.model import FloatArray, ShippedModel
from cerp.data.ids import Id, Int32Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.evaluation.evaluate import Scorer
from cerp.runtime.about import AboutModel
from cerp.runtime.coded_lists import CodedLists, Places, checked_length, distinct, joined
from cerp.runtime.cold_start import Unknown
from cerp.runtime.histories import OfHistories
from cerp.runtime.limits import MAX_MEMORY, Limits
from cerp.runtime.mixture_ranker import ranker_of
from cerp.runtime.neighbour_ranker import ASK_BY_ITEMS
from cerp.runtime.scoring import blocks
from cerp.runtime.selection import Lists

SCORE_BYTES = 24 * 2**20
"""Size of a matrix of scores, unless that of one user is larger. Below 32 MB the allocator
of Linux keeps the memory from one request to the next, which saves a tenth of the time."""


class Recommendation(NamedTuple):
    """One place of a list."""

    item: Id
    """Original id."""
    score: float
    """The model's own: higher is better, and that is all it means."""


class Runtime(AboutModel):
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
    one_list_first
        Have the first list of a LightGCN sooner, and its vectors of all users and items when
        asked for more: the second list then takes as long as it would take to make them now.

    """

    def __init__(
        self,
        model: ShippedModel,
        *,
        file_bytes: int | None = None,
        max_memory: int | str = MAX_MEMORY,
        one_list_first: bool = False,
    ) -> None:
        if model.is_lookup:
            raise ConfigError(
                f"the file holds vectors of {len(model.items):,} ids for lookups and no "
                "recommender; look them up with cerp.load(path).vectors(ids)"
            )
        self.model, self.file_bytes = model, file_bytes
        limits = Limits.of(max_memory, file_bytes)
        limits.refuse_model(model)
        self._unknown = Unknown(model)
        ranker = ranker_of(model, limits, one_list_first=one_list_first)
        self._ranker = self._unknown.ranker(ranker)
        self._lists = CodedLists(self._ranker, self._unknown, model.seen)

    @property
    def takes_liked_items(self) -> bool:
        """Whether `recommend_for` can do without a known user: everywhere but with a tower."""
        return self.model.head != "tower"

    @property
    def knows_popular_items(self) -> bool:
        """Whether the file says which items are popular, for someone of whom nothing is known."""
        return self._unknown.popular is not None

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
        unseen_items: bool = False,
    ) -> list[Recommendation]:
        """The k best items for a user; the popular ones for a user without training rows.

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
        unseen_items
            Whether the list may hold items that training never saw, which have scores, but
            scores that nothing was learned for.

        Returns
        -------
        list of Recommendation
            Best first; equal scores in native item order.

        """
        return self.recommend_many(
            [user],
            k,
            exclude_seen=exclude_seen,
            exclude=exclude,
            candidates=candidates,
            unseen_items=unseen_items,
        )[0]

    def recommend_many(
        self,
        users: Iterable[Id],
        k: int = 10,
        *,
        exclude_seen: bool = True,
        exclude: Iterable[Id] = (),
        candidates: Iterable[Id] | None = None,
        unseen_items: bool = False,
    ) -> list[list[Recommendation]]:
        """What `recommend` gives for each of several users, in less time.

        Parameters
        ----------
        users
            Original ids.
        k, exclude_seen, exclude, candidates, unseen_items
            As in `recommend`, the same for all users.

        Returns
        -------
        list of list of Recommendation
            One list for each user, in the order given.

        """
        codes, k = self._codes(users), checked_length(k)  # also where there is nobody to ask for
        excluded = self._items(exclude)
        chosen = None if candidates is None else self._items(candidates)
        found: list[list[Recommendation]] = []
        for block in blocks(len(codes), 4 * len(self.items), SCORE_BYTES):
            lists = self.lists_of(
                codes[block],
                k,
                exclude_seen=exclude_seen,
                excluded=excluded,
                candidates=chosen,
                unseen_items=unseen_items,
            )
            found += self._named(lists)
        return found

    def lists_of(
        self,
        users: Int32Array,
        k: int,
        *,
        exclude_seen: bool = True,
        excluded: Int32Array | None = None,
        candidates: Int32Array | None = None,
        taken: Places | None = None,
        unseen_items: bool = False,
    ) -> Lists:
        """What `recommend_many` gives, by code: for whoever writes tables of many users.

        Parameters
        ----------
        users
            Codes: places in `users`, from 0.
        k, exclude_seen, unseen_items
            As in `recommend`.
        excluded, candidates
            Codes of items, distinct and ascending.
        taken
            More that single lists do without: positions among the users given, ascending, and
            for each an item code.

        Returns
        -------
        Lists
            Item codes and scores, one user after the other.

        """
        wanted = self._lists.wanted(k, excluded, candidates, unseen_items=unseen_items)
        seen = self._lists.seen(users) if exclude_seen else None
        return self._lists.of_users(users, wanted, joined(seen, taken))

    def lists_for(
        self,
        liked: Int32Array,
        k: int,
        *,
        exclude_seen: bool = True,
        excluded: Int32Array | None = None,
        candidates: Int32Array | None = None,
        unseen_items: bool = False,
    ) -> Lists:
        """The one list of someone new, by code; `lists_of` and `recommend_for` say the rest."""
        self._refuse_taste(len(liked))
        wanted = self._lists.wanted(k, excluded, candidates, unseen_items=unseen_items)
        seen = (np.zeros(len(liked), dtype=np.int64), liked) if exclude_seen else None
        return self._lists.of_liked(liked, wanted, seen)

    def recommend_for(
        self,
        liked: Iterable[Id],
        k: int = 10,
        *,
        exclude_seen: bool = True,
        exclude: Iterable[Id] = (),
        candidates: Iterable[Id] | None = None,
        unseen_items: bool = False,
    ) -> list[Recommendation]:
        """The k best items for someone who was not there in training, from items they like.

        `cerp.runtime.folding` has the equation for vectors. A graph filter needs none, nor do
        weights between items: they give what a user of training with the same items gets.
        Models that score by a tower cannot do it. Items that training never saw tell nothing of
        a taste, and someone without any that it saw gets the popular items, from files that say
        which those are.

        Parameters
        ----------
        liked
            Original ids of items; none: the popular items.
        k, exclude, candidates, unseen_items
            As in `recommend`.
        exclude_seen
            Leave out the liked items.

        Returns
        -------
        list of Recommendation
            Best first.

        """
        liked = list(liked)
        self._refuse_taste(len(liked))
        codes = self._items(liked)
        return self._named(
            self.lists_for(
                codes,
                k,
                exclude_seen=exclude_seen,
                excluded=self._items(exclude),
                candidates=None if candidates is None else self._items(candidates),
                unseen_items=unseen_items,
            )
        )[0]

    def similar_items(self, item: Id, k: int = 10) -> list[Recommendation]:
        """The k items most like one: ``cos(v_i, v_j)`` of the vectors that the model ranks with.

        For a tower, which ranks by no vectors, of those that it is fed with. A graph filter
        alone, and weights between items, rank them as for someone who took nothing but the item.
        Items that training never saw are left out.

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
        hidden = self._unknown.items
        found = self._named(self._ranker.similar(code, checked_length(k) + len(hidden)))[0]
        if len(hidden):
            unseen = set(self.items.decode(hidden))
            found = [place for place in found if place.item not in unseen]
        return found[:k]

    def score(self, user: Id, items: Iterable[Id]) -> FloatArray:
        """Scores of some items for a user; without training rows, by popularity.

        Parameters
        ----------
        user, items
            Original ids.

        Returns
        -------
        array of float32, (number of items,)
            In the order given.

        """
        asked = self._ranker.of_users(self._codes([user]))
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
        self.refuse_without_users()
        return self._ranker.scores(self._ranker.of_users(users), slice(None))

    def with_histories(self, train: Interactions) -> Scorer:
        """A scorer of users whose liked items are their interactions.

        So an item-only model is judged as it is used; `cerp.evaluate` does this by itself.
        """
        return OfHistories(self._ranker, train)

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
        return self.items.decode(self._lists.seen(self._codes([user]))[1])

    def _refuse_taste(self, count: int) -> None:
        if count and not self.takes_liked_items:
            raise ConfigError(
                "a model that scores by a tower (an MLP) cannot recommend from liked items: items "
                "and users meet in the tower only, so liked items say nothing about a user's "
                "vector. Train 'lightgcn' or 'mf' for that"
            )

    def refuse_without_users(self) -> None:
        """Refuse to be asked for users where there are none."""
        if self.is_item_only:
            raise ConfigError(ASK_BY_ITEMS)

    def _codes(self, users: Iterable[Id]) -> Int32Array:
        self.refuse_without_users()
        return self.users.encode(users, what="user")

    def _items(self, items: Iterable[Id]) -> Int32Array:
        """Their codes, distinct and ascending."""
        return distinct(self.items.encode(items, what="item"))

    def _named(self, found: Lists) -> list[list[Recommendation]]:
        """Lists by original ids."""
        places = list(map(Recommendation, self.items.decode(found.columns), found.scores.tolist()))
        return [places[start:end] for start, end in zip(found.starts, found.ends, strict=True)]
