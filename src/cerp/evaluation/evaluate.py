"""One judge for every model: full ranking, exact ties, everything per user.

Knows scores and ids, not models. Whatever has `score_all` can be judged, the
model in training and the shipped file alike; torch is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Part, Splits
from cerp.errors import ConfigError, DataError, ScoreError
from cerp.evaluation.cold_start import items_without_rows, users_without_rows
from cerp.evaluation.metrics import (
    FloatArray,
    Metrics,
    RankedLists,
    cutoff_of,
    metric_names,
    user_metrics,
)
from cerp.evaluation.one_order import falling, first_of
from cerp.evaluation.popularity import head_items
from cerp.evaluation.ranking import exclude, top_k
from cerp.progress import Bar, progress

if TYPE_CHECKING:
    from cerp.evaluation.ranking import Scores

DEFAULT_KS = (5, 10, 20, 50)
DEFAULT_MEMORY = 64 * 2**20
"""Bytes of one chunk of float32 scores."""
MOST_SCORES = 2 * 10**10
"""Up to so many scores, users times items, everybody is judged: some minutes on a few cores."""
LONG = 10**9
"""Scores for which progress is shown: some ten seconds."""
LEAST_ROWS = 8
"""Users who are scored together however many items there are: the vectors of all items are read
once for them."""
LEAST_SAMPLE = 1_000
"""Users who are judged however many items there are."""
LISTED_AS = 8
"""Scores that take as much memory as an entry of a list does while it is made of one order."""


class Scorer(Protocol):
    """Anything that can rank the catalogue for a user."""

    def score_all(self, users: Int32Array) -> Scores:
        """Scores of shape (len(users), num_items), higher is better, NumPy or torch.

        The matrix is handed over: the caller may write into it. -inf keeps an
        item from being recommended. A scorer that has one row for everybody may offer it as
        ``scores_for_all``, and is then not asked for matrices.
        """


class Sharing(Protocol):
    """Processes that judge together: each ranks for some of the users, and all get every list."""

    def part(self, users: Int32Array) -> Int32Array:
        """Those that this process ranks for, in order."""

    def whole(self, lists: Int32Array, count: int) -> Int32Array:
        """The lists of all ``count`` users, in their order, from those of this process's part."""


def evaluate(
    scorer: Scorer,
    splits: Splits,
    *,
    on: Part = "test",
    ks: Sequence[int] = DEFAULT_KS,
    users: Int32Array | None = None,
    groups: Int64Array | None = None,
    unseen_items: bool = False,
    memory: int = DEFAULT_MEMORY,
    sharing: Sharing | None = None,
    label: str | None = None,
) -> Metrics:
    """Judge a scorer on the test or validation part, as `cerp.evaluation.metrics.CONVENTIONS` says.

    Parameters
    ----------
    scorer
        Anything with ``score_all(user_codes)``: a model file that was loaded, a fitted model, or
        something of your own. A file that knows no users is asked for them by what they took in
        training. One that says what it was ``trained_on``, as a loaded file does, is
        not judged on what it learned.
    splits
        The data, split as the scorer's training data was.
    on
        The part that holds the truth, ``"test"`` or ``"valid"``.
    ks
        The cut-offs of all metrics.
    users
        Codes of the users to judge (see `sample_users`); None: those of `users_to_judge`, all that
        have truth unless they are very many.
    groups
        The group of each item, from 0; recall is then also measured for each group alone (see
        `cerp.evaluation.popularity.popularity_groups`).
    unseen_items
        Whether lists may hold items that training never saw: for a scorer of your own that
        knows something of them.
    memory
        Users are scored in chunks whose float32 score matrix takes at most so many bytes, but at
        least eight at a time; the result does not depend on it.
    sharing
        Several processes that each call this with the same arguments and share the ranking; each
        has the whole result.
    label
        What to call this in progress, which is shown where it takes long; None: nowhere.

    Returns
    -------
    Metrics
        Per user and in the mean.

    """
    trained_on = getattr(scorer, "trained_on", None)
    if trained_on:
        refuse_learned("the model", trained_on, splits, on)
    if getattr(scorer, "is_item_only", False):
        scorer = scorer.with_histories(_training_part(splits, trained_on))  # type: ignore[attr-defined]
    seen, truth = splits.parts_before(on), splits.part(on)
    if not ks or min(ks) < 1:
        raise ConfigError(f"the cut-offs must be positive, got {list(ks)}")
    if groups is not None and len(groups) != splits.num_items:
        raise ConfigError(
            f"there are {splits.num_items:,} items and groups of {len(groups):,}; "
            "give the group of every item"
        )
    judged = users_to_judge(splits, on) if users is None else _judged(truth, users, on)
    tally = _Tally(splits, truth, judged, sorted(set(ks)), groups)
    hidden = None if unseen_items else items_without_rows(splits.train)
    same = getattr(scorer, "scores_for_all", None)
    order = None if same is None else falling(same, hidden)
    width = splits.num_items if order is None else LISTED_AS * tally.depth
    rows = max(LEAST_ROWS, memory // (4 * width))

    def ranked(users: Int32Array, bar: Bar) -> Iterator[tuple[Int32Array, Int32Array]]:
        for start in range(0, len(users), rows):
            chunk = users[start : start + rows]
            taken = _entries_of_all(seen, chunk)
            if order is None:
                scores = _scores(scorer, chunk, splits.num_items)
                items, _ = top_k(exclude(scores, *taken, hidden), tally.depth)
            else:  # one order for everybody: no scores are written, only lists
                items = first_of(order, *taken, len(chunk), tally.depth)
            yield chunk, items
            bar.advance(len(chunk))

    mine = judged if sharing is None else sharing.part(judged)
    is_long = len(mine) * splits.num_items > LONG
    with progress(label or "", len(mine), quiet=label is None or not is_long) as bar:
        if sharing is None:
            for chunk, items in ranked(mine, bar):
                tally.add(chunk, items)
            return tally.metrics(on)
        lists = [items for _, items in ranked(mine, bar)]
        none = np.empty((0, tally.depth), dtype=np.int32)
    tally.add(judged, sharing.whole(np.concatenate([none, *lists]), len(judged)))
    return tally.metrics(on)


def _scores(scorer: Scorer, users: Int32Array, num_items: int) -> Scores:
    scores = scorer.score_all(users)
    if tuple(scores.shape) != (len(users), num_items):
        raise ScoreError(
            f"score_all gave the shape {tuple(scores.shape)} for {len(users)} users; "
            f"expected ({len(users)}, {num_items}), one column for each item"
        )
    return scores


def cutoffs_with(metric: str) -> list[int]:
    """`DEFAULT_KS`, and the cut-off of a metric such as ``recall@30``."""
    return sorted({*DEFAULT_KS, cutoff_of(metric)})


def sample_users(splits: Splits, on: Part, count: int, seed: int) -> Int32Array:
    """A seeded sample of users that have truth in a part; all of them, if they are fewer."""
    candidates = np.flatnonzero(np.diff(splits.part(on).user_offsets)).astype(np.int32)
    drawn = np.random.default_rng(seed).permutation(candidates)[:count]
    return np.sort(drawn)


def users_to_judge(splits: Splits, on: Part, count: int | None = None) -> Int32Array:
    """Who is judged on a part, ascending: everybody with truth there, or a sample of them.

    The sample has ``count`` users, or without one ``max(1000, 2·10^10 / number of items)``: it is
    the same for every model, so that models are compared on the same users.
    """
    if count is None:
        count = max(LEAST_SAMPLE, MOST_SCORES // splits.num_items)
    return _judged(splits.part(on), sample_users(splits, on, count, seed=0), on)


def entries_of(data: Interactions, users: Int32Array) -> tuple[Int64Array, Int32Array]:
    """The items of some users: (position of the user among those given, item), in that order."""
    counts = np.diff(data.user_offsets)[users]
    first = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(users)), counts)
    places = np.arange(len(rows)) + (data.user_offsets[users] - first)[rows]
    return rows, data.item[places]


def _entries_of_all(
    parts: Sequence[Interactions], users: Int32Array
) -> tuple[Int64Array, Int32Array]:
    """`entries_of` several parts, one after the other."""
    rows, items = zip(*(entries_of(part, users) for part in parts), strict=True)
    return np.concatenate(rows), np.concatenate(items)


def refuse_learned(name: str, trained_on: str, splits: Splits, on: Part) -> None:
    """Refuse to judge a model on interactions that it was trained on, or may have been."""
    if trained_on == splits.fingerprint:
        return
    if trained_on == splits.refit("train+valid").fingerprint:
        learned: tuple[Part, ...] = ("valid",)
    elif trained_on == splits.refit("all").fingerprint:
        learned = ("valid", "test")
    else:
        raise DataError(
            f"{name} was trained on another split of these users and items (fingerprint "
            f"{trained_on[:12]}, that of this one {splits.fingerprint[:12]}): its training part "
            "may hold what it would be judged on. Name the same data, split alike"
        )
    if on in learned:
        raise DataError(
            f"{name} was refitted on the {' and '.join(learned)} part: judged on {on}, it would "
            "be asked what it was told"
        )


def _training_part(splits: Splits, trained_on: str | None) -> Interactions:
    """What a model was trained on: the training part, or more after a refit."""
    if trained_on == splits.refit("train+valid").fingerprint:
        return splits.refit("train+valid").train
    return splits.train


class _Tally:
    """Adds up chunks of top-k lists of the users who are judged, each by their place among them."""

    def __init__(
        self,
        splits: Splits,
        truth: Interactions,
        users: Int32Array,
        ks: list[int],
        groups: Int64Array | None,
    ) -> None:
        self.ks, self.names = ks, metric_names()  # which looks into all packages: once is enough
        self.depth = min(ks[-1], splits.num_items)
        self.users, self.num_items, self.train = users, splits.num_items, splits.train
        self.users_with_truth = int(np.count_nonzero(np.diff(truth.user_offsets)))
        places, wanted = entries_of(truth, users)
        self.truth_keys = places * self.num_items + wanted
        head = head_items(splits.train)
        self.sides = {"all": np.ones_like(head), "head": head, "tail": ~head}
        self.sizes = {
            name: np.bincount(places[member[wanted]], minlength=len(users))
            for name, member in self.sides.items()
        }
        self.values: dict[str, list[dict[str, FloatArray]]] = {name: [] for name in self.sides}
        # One column more than items: that is where the -1 of an empty place in a list goes.
        self.listed = np.zeros((len(ks), splits.num_items + 1), dtype=bool)
        self.groups = None
        if groups is not None:
            self.groups = _GroupTally(places, groups[wanted], len(users), groups, ks)

    def add(self, users: Int32Array, items: Int32Array) -> None:
        places = np.searchsorted(self.users, users)
        for listed, k in zip(self.listed, self.ks, strict=True):
            listed[items[:, :k]] = True
        keys = places[:, None] * self.num_items + items
        found = np.searchsorted(self.truth_keys, keys)
        hits = (items >= 0) & (self.truth_keys.take(found, mode="clip") == keys)
        for name, member in self.sides.items():
            sizes = self.sizes[name][places]
            has_truth = sizes > 0
            lists = RankedLists((hits & member[items])[has_truth], sizes[has_truth])
            self.values[name].append(user_metrics(lists, self.ks, self.names))
        if self.groups is not None:
            self.groups.add(places, items, hits)

    def metrics(self, on: Part) -> Metrics:
        coverage = self.listed[:, :-1].mean(axis=1)
        return Metrics(
            on=on,
            users=self.users,
            users_with_truth=self.users_with_truth,
            per_user=self._joined("all"),
            coverage={f"coverage@{k}": float(c) for k, c in zip(self.ks, coverage, strict=True)},
            head=self._means("head"),
            tail=self._means("tail"),
            recall_by_group={} if self.groups is None else self.groups.recalls(),
            cold_users=len(np.intersect1d(self.users, users_without_rows(self.train))),
            unseen_items=len(items_without_rows(self.train)),
        )

    def _joined(self, side: str) -> dict[str, FloatArray]:
        chunks = self.values[side]
        return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}

    def _means(self, side: str) -> dict[str, float]:
        joined = self._joined(side)
        count = len(next(iter(joined.values())))
        means = {name: float(values.mean()) for name, values in joined.items()} if count else {}
        return {"users": count, **means}


class _GroupTally:
    """Counts truth and hits of every user who is judged in every group of items.

    ``places`` are users, by their place among the ``count`` who are judged, and ``wanted`` the
    groups of the items that they should be given.
    """

    def __init__(
        self,
        places: Int64Array,
        wanted: Int64Array,
        count: int,
        groups: Int64Array,
        ks: list[int],
    ) -> None:
        self.group_of, self.ks, self.count = groups, ks, int(groups.max()) + 1
        self.sizes = self._counted(places, wanted, count)
        self.hits = [np.zeros_like(self.sizes) for _ in ks]

    def add(self, places: Int64Array, items: Int32Array, hits: npt.NDArray[np.bool_]) -> None:
        for into, k in zip(self.hits, self.ks, strict=True):
            row, rank = np.nonzero(hits[:, :k])
            into[places] = self._counted(row, self.group_of[items[row, rank]], len(places))

    def recalls(self) -> dict[str, list[float | None]]:
        """Mean of hits / truth over the users with truth in a group."""
        return {
            f"recall@{k}": [_mean_share(*each) for each in zip(hits.T, self.sizes.T, strict=True)]
            for k, hits in zip(self.ks, self.hits, strict=True)
        }

    def _counted(
        self, rows: npt.NDArray[np.integer], groups: Int64Array, num_rows: int
    ) -> Int64Array:
        """How often each group occurs in each row."""
        places = rows.astype(np.int64) * self.count + groups
        counts = np.bincount(places, minlength=num_rows * self.count)
        return counts.reshape(num_rows, self.count)


def _mean_share(hits: Int64Array, sizes: Int64Array) -> float | None:
    has_truth = sizes > 0
    return float((hits[has_truth] / sizes[has_truth]).mean()) if has_truth.any() else None


def _judged(truth: Interactions, users: Int32Array, on: Part) -> Int32Array:
    """The users asked for that have truth, ascending."""
    asked = np.asarray(users)
    if asked.size and not (asked.min() >= 0 and asked.max() < truth.num_users):
        raise ConfigError(f"user codes must be in 0..{truth.num_users - 1}")
    judged = np.unique(asked).astype(np.int32)
    judged = judged[np.diff(truth.user_offsets)[judged] > 0]
    if not judged.size:
        which = f"none of the {len(users)} users asked for" if len(users) else "no user"
        raise DataError(f"{which} has interactions in the {on} part: there is nothing to judge on")
    return judged
