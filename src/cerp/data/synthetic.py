"""The embedded data set: made-up interactions with the shape of real ones.

Items live in *niches*, niches in *genres*. A user is at home in two genres and
has a few favourite niches there. An interaction is a niche of the user's own
mix, or sometimes its whole genre or the whole catalogue, and then an item from
there by popularity. Genres alone are a coarse picture of taste, which a few
dimensions hold; niches need many: that is the trade-off of a compact model.

Whatever distinguishes an entity is drawn independently of its number, so the
order of the ids says nothing about taste. Cost grows with the number of
interactions, not with users times items.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Id, Ids, Int64Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError

MIN_PER_USER = 5
"""Interactions that every user has at least."""
MEAN_PER_USER = 36
"""Interactions per user where their number is left open."""

ITEMS_PER_NICHE = 15
NICHES_PER_GENRE = 10
FAVOURITES = 6
"""Niches in a user's own mix."""
HOME_SHARES = (0.6, 0.3, 0.1)
"""How often a favourite niche lies in the first home genre, the second, or anywhere."""
BREADTH_SHARES = (0.7, 0.2, 0.1)
"""How often an interaction stays in its niche, strays into its genre, or goes anywhere."""
SECOND_NICHE_WEIGHT = 0.4
"""Every item is also found in a second niche, this much less."""
ACTIVITY_SPREAD = 0.8
POPULARITY_SPREAD = 1.5
"""Standard deviations of the log-normal laws: the long tails of users and items."""
ROUNDS_PER_BREADTH = 4
"""A user who draws only known items for so many rounds looks further: genre, everything."""

GENRES = (
    *("Mystery", "Comedy", "Romance", "Western", "Science fiction", "Documentary"),
    *("Musical", "Horror", "Adventure", "History", "Animation", "Drama"),
)
PLACES = (
    *("in Paris", "at sea", "in the mountains", "in space", "in the city"),
    *("on the road", "in winter", "by night", "in wartime", "in the country"),
)
"""What genres and their niches are called in made-up titles."""

FIRST_TIME, LAST_TIME = 1_577_836_800, 1_672_531_200
"""2020 to the end of 2022, in Unix seconds."""


def synthetic(
    num_users: int = 2_500,
    num_items: int = 1_800,
    num_interactions: int | None = None,
    *,
    seed: int = 0,
) -> Interactions:
    """Exactly ``num_interactions`` distinct pairs in which every user and item occurs.

    Every user has at least five. Left open, the number is 36 per user, but not
    more than a fifth of all pairs. Times carry no trend in taste. The same
    arguments give the same data.
    """
    total = _checked_total(num_users, num_items, num_interactions)
    rng = np.random.default_rng(seed)
    catalogue = _Catalogue(num_items, rng)
    favourites, shares = _tastes(num_users, catalogue, rng)
    quota = _quotas(num_users, num_items, total, rng)

    def drawn_niches(users: Int64Array) -> Int64Array:
        """One niche of each user's own mix."""
        chosen = (rng.random((len(users), 1)) > shares[users]).sum(axis=1)
        niches: Int64Array = favourites[users, chosen]
        return niches

    slots = np.repeat(np.arange(num_users, dtype=np.int64), quota)
    owners = _owners_of_every_item(slots, drawn_niches(slots), catalogue, rng)
    pairs = np.sort(owners * num_items + np.arange(num_items))
    for breadth in np.repeat([0, 1, 2], ROUNDS_PER_BREADTH):
        open_slots = _open_slots(pairs, quota, num_items)
        items = catalogue.drawn(drawn_niches(open_slots), breadth, rng)
        pairs = _distinct(np.concatenate([pairs, open_slots * num_items + items]))
    pairs = np.concatenate([pairs, _anything(pairs, quota, num_items, rng)])
    user, item = np.divmod(pairs, num_items)
    return Interactions.from_codes(
        user,
        item,
        users=Ids.range(num_users),
        items=Ids.range(num_items),
        time=_times(user, num_users, rng),
    )


def synthetic_titles(num_items: int = 1_800, *, seed: int = 0) -> dict[Id, str]:
    """Made-up titles for the items of `synthetic`: items of a niche are called alike.

    So an eye sees whether a list makes sense: ``Mystery at sea 3`` is of the genre Mystery, of its
    niche at sea, and the third item there.
    """
    niches = _Catalogue(num_items, np.random.default_rng(seed)).niche.tolist()
    titles: dict[Id, str] = {}
    found: Counter[int] = Counter()
    for item, niche in enumerate(niches):
        genre, place = divmod(niche, NICHES_PER_GENRE)
        again, name = divmod(genre, len(GENRES))
        found[niche] += 1
        series = f" {again + 1}" if again else ""
        titles[item] = f"{GENRES[name]}{series} {PLACES[place]} {found[niche]}"
    return titles


class _Catalogue:
    """Items in niches, laid out so that a niche, a genre or everything is one stretch.

    Entry e is ``item[e]`` in some niche; entries are sorted by niche, niche c is
    in genre c // 10, and ``reach`` is the cumulative weight. So a popularity
    draw from any of the three is one uniform number and one binary search.
    """

    def __init__(self, num_items: int, rng: np.random.Generator) -> None:
        self.num_niches = max(1, num_items // ITEMS_PER_NICHE)
        self.niche = rng.integers(self.num_niches, size=num_items)
        popularity = rng.lognormal(sigma=POPULARITY_SPREAD, size=num_items)
        niches = np.concatenate([self.niche, rng.integers(self.num_niches, size=num_items)])
        weights = np.concatenate([popularity, SECOND_NICHE_WEIGHT * popularity])
        order = np.argsort(niches, kind="stable")
        self.item = np.tile(np.arange(num_items), 2)[order]
        self.reach = np.cumsum(weights[order])
        starts = np.searchsorted(niches[order], np.arange(self.num_niches + 1))
        self.niche_reach = np.concatenate(([0.0], self.reach))[starts]

    def drawn(self, niches: Int64Array, least_breadth: int, rng: np.random.Generator) -> Int64Array:
        """One item for each niche: from it (breadth 0), its genre (1), or anywhere (2)."""
        breadth = np.maximum(rng.choice(3, size=len(niches), p=BREADTH_SHARES), least_breadth)
        genre = niches // NICHES_PER_GENRE * NICHES_PER_GENRE
        first = np.choose(breadth, [niches, genre, 0])
        last = np.choose(breadth, [niches + 1, genre + NICHES_PER_GENRE, self.num_niches])
        low = self.niche_reach[first]
        high = self.niche_reach[np.minimum(last, self.num_niches)]
        point = low + (high - low) * rng.random(len(niches))
        entry = np.searchsorted(self.reach, point, side="right")
        items: Int64Array = self.item[np.minimum(entry, len(self.item) - 1)]
        return items


def _checked_total(num_users: int, num_items: int, num_interactions: int | None) -> int:
    if num_users < 2 or num_items < MIN_PER_USER:
        raise ConfigError(
            f"synthetic data needs at least 2 users and {MIN_PER_USER} items, "
            f"not {num_users:,} and {num_items:,}"
        )
    least = max(MIN_PER_USER * num_users, num_items)
    most = num_users * num_items
    if num_interactions is None:
        return max(least, min(MEAN_PER_USER * num_users, most // 5))
    if not least <= num_interactions <= most:
        raise ConfigError(
            f"{num_interactions:,} interactions are impossible: {num_users:,} users and "
            f"{num_items:,} items, each of them used, can have {least:,} to {most:,}"
        )
    return num_interactions


def _tastes(
    num_users: int, catalogue: _Catalogue, rng: np.random.Generator
) -> tuple[Int64Array, npt.NDArray[np.float64]]:
    """The favourite niches of each user, and the cumulative shares of all but the last."""
    shape = (num_users, FAVOURITES)
    anywhere = rng.integers(catalogue.num_niches, size=shape)
    homes = rng.integers(catalogue.num_niches, size=(num_users, 2)) // NICHES_PER_GENRE
    which = rng.choice(3, size=shape, p=HOME_SHARES)
    genre = np.take_along_axis(homes, np.minimum(which, 1), axis=1)
    at_home = genre * NICHES_PER_GENRE + rng.integers(NICHES_PER_GENRE, size=shape)
    favourites = np.where(which == 2, anywhere, np.minimum(at_home, catalogue.num_niches - 1))
    weights = rng.exponential(size=shape)
    shares = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    return favourites, shares[:, :-1]


def _quotas(num_users: int, num_items: int, total: int, rng: np.random.Generator) -> Int64Array:
    """How many interactions each user has: a log-normal law that adds up exactly."""
    activity = rng.lognormal(sigma=ACTIVITY_SPREAD, size=num_users)
    quota = np.full(num_users, MIN_PER_USER)
    while missing := total - int(quota.sum()):
        weights = activity * (quota < num_items)
        more = rng.multinomial(missing, weights / weights.sum())
        quota = np.minimum(quota + more, num_items)
    return quota


def _owners_of_every_item(
    slots: Int64Array, niches: Int64Array, catalogue: _Catalogue, rng: np.random.Generator
) -> Int64Array:
    """A user for each item, one with a taste for its niche as long as there is one.

    Without this, items of the far tail would be drawn by nobody.
    """
    by_niche = np.lexsort((rng.random(len(slots)), niches))
    slot_starts = np.searchsorted(niches[by_niche], np.arange(catalogue.num_niches + 1))
    item_order = np.argsort(catalogue.niche, kind="stable")
    niche = catalogue.niche[item_order]
    rank = np.arange(len(niche)) - np.searchsorted(niche, niche)
    place = slot_starts[niche] + rank
    fits = place < slot_starts[niche + 1]
    free = np.ones(len(slots), dtype=bool)
    free[place[fits]] = False
    place[~fits] = rng.choice(np.flatnonzero(free), size=int((~fits).sum()), replace=False)
    owners = np.empty_like(item_order)
    owners[item_order] = slots[by_niche[place]]
    return owners


def _open_slots(pairs: Int64Array, quota: Int64Array, num_items: int) -> Int64Array:
    """Each user as often as it still lacks an item."""
    taken = np.bincount(pairs // num_items, minlength=len(quota))
    return np.repeat(np.arange(len(quota), dtype=np.int64), quota - taken)


def _distinct(pairs: Int64Array) -> Int64Array:
    """Sorted and distinct; np.unique takes ten times as long on millions of pairs."""
    pairs = np.sort(pairs)
    return pairs[np.diff(pairs, prepend=-1) > 0]


def _anything(
    pairs: Int64Array, quota: Int64Array, num_items: int, rng: np.random.Generator
) -> Int64Array:
    """Pairs for the few users who take nearly everything: any items not yet theirs."""
    users, missing = np.unique(_open_slots(pairs, quota, num_items), return_counts=True)
    extra = [np.empty(0, dtype=np.int64)]
    for user, count in zip(users, missing, strict=True):
        first, last = np.searchsorted(pairs, [user * num_items, (user + 1) * num_items])
        untaken = np.ones(num_items, dtype=bool)
        untaken[pairs[first:last] - user * num_items] = False
        items = rng.choice(np.flatnonzero(untaken), size=count, replace=False)
        extra.append(user * num_items + items)
    return np.concatenate(extra)


def _times(user: Int64Array, num_users: int, rng: np.random.Generator) -> Int64Array:
    """Unix seconds, spread evenly over each user's stay, which begins in the first half.

    So a split by time finds few users of whom it knows nothing.
    """
    arrival = rng.integers(FIRST_TIME, (FIRST_TIME + LAST_TIME) // 2, size=num_users)[user]
    return arrival + ((LAST_TIME - arrival) * rng.random(len(user))).astype(np.int64)
