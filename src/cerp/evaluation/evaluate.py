"""One judge for every model: full ranking, exact ties, everything per user.

Knows scores and ids, not models. Whatever has `score_all` can be judged, the
model in training and the shipped file alike; torch is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Part, Splits
from cerp.errors import ConfigError, DataError, ScoreError
from cerp.evaluation.ranking import exclude, top_k

if TYPE_CHECKING:
    from cerp.evaluation.ranking import Scores

FloatArray = npt.NDArray[np.float64]

DEFAULT_KS = (5, 10, 20, 50)
DEFAULT_MEMORY = 64 * 2**20
"""Bytes of one chunk of float32 scores."""
BOOTSTRAP_DRAWS = 2**20
"""Draws held in memory at a time."""
HEAD_SHARE = 0.2
"""Share of the catalogue that counts as head."""

CONVENTIONS = """\
Full ranking over all items, no sampled candidates. Items that the user has in training
(at test time: in training or validation) are not recommended. Ids are the union over train,
valid and test: an item unseen in training stays in the catalogue and in the truth. Users
without truth are left out. Equal scores rank in native item order. Means are over users.
Recall@k = hits / |truth|; precision@k = hits / k; hit rate@k = any hit; MRR@k = 1 / rank of
the first hit, 0 beyond k; NDCG@k has binary gains and its ideal is cut at min(k, |truth|);
MAP@k = sum of the precision at each hit / min(k, |truth|); coverage@k = share of the
catalogue that is in anybody's list. Head: the 20% of items with the most training
interactions, ties in native order; tail: the rest; in both only the truth is restricted.
"""
"""What the numbers mean; to be printed beside them."""


class Scorer(Protocol):
    """Anything that can rank the catalogue for a user."""

    def score_all(self, users: Int32Array) -> Scores:
        """Scores of shape (len(users), num_items), higher is better, NumPy or torch.

        The matrix is handed over: the caller may write into it. -inf keeps an
        item from being recommended.
        """


@dataclass(frozen=True, eq=False)
class Metrics:
    """How well a scorer ranks; see `CONVENTIONS`. Keys are like ``ndcg@10``."""

    on: Part
    """The part that was judged on."""
    users: Int32Array
    """Codes of the users judged, ascending."""
    per_user: dict[str, FloatArray]
    """Each metric for each of the users."""
    coverage: dict[str, float]
    """Share of the catalogue in anybody's list."""
    head: dict[str, float]
    """Number of users, and means, where only truth among popular items counts."""
    tail: dict[str, float]
    """Number of users, and means, where only truth among the other items counts."""

    @cached_property
    def mean(self) -> dict[str, float]:
        """Each metric, averaged over the users."""
        return {name: float(values.mean()) for name, values in self.per_user.items()}

    def refuse_unknown(self, metric: str) -> None:
        """Refuse a metric that was not computed."""
        if metric not in self.per_user:
            known = ", ".join(self.per_user)
            raise ConfigError(f"unknown metric {metric!r}; these were computed: {known}")

    def summary(self) -> dict[str, Any]:
        """Everything but the per-user values, flat and ready for JSON."""
        return {
            "on": self.on,
            "users": len(self.users),
            **self.mean,
            **self.coverage,
            "head": self.head,
            "tail": self.tail,
        }


def evaluate(
    scorer: Scorer,
    splits: Splits,
    *,
    on: Part = "test",
    ks: Sequence[int] = DEFAULT_KS,
    users: Int32Array | None = None,
    memory: int = DEFAULT_MEMORY,
) -> Metrics:
    """Judge a scorer on the test or validation part, as `CONVENTIONS` says.

    ``users`` restricts it to some users (see `sample_users`). Users are scored
    in chunks whose float32 score matrix takes at most ``memory`` bytes, but at
    least one user at a time; the result does not depend on it. A scorer that says
    what it was `trained_on`, as a loaded file does, is not judged on what it learned.
    """
    if trained_on := getattr(scorer, "trained_on", None):
        refuse_learned("the model", trained_on, splits, on)
    seen, truth = splits.seen_before(on), splits.part(on)
    if not ks or min(ks) < 1:
        raise ConfigError(f"the cut-offs must be positive, got {list(ks)}")
    judged = _judged(truth, users, on)
    tally = _Tally(splits, truth, sorted(set(ks)))
    rows = max(1, memory // (4 * splits.num_items))
    for start in range(0, len(judged), rows):
        chunk = judged[start : start + rows]
        scores = scorer.score_all(chunk)
        if tuple(scores.shape) != (len(chunk), splits.num_items):
            raise ScoreError(
                f"score_all gave the shape {tuple(scores.shape)} for {len(chunk)} users; "
                f"expected ({len(chunk)}, {splits.num_items}), one column for each item"
            )
        items, _ = top_k(exclude(scores, *entries_of(seen, chunk)), tally.depth)
        tally.add(chunk, items)
    return tally.metrics(on, judged)


def sample_users(splits: Splits, on: Part, count: int, seed: int) -> Int32Array:
    """A seeded sample of users that have truth in a part; all of them, if they are fewer."""
    candidates = np.unique(splits.part(on).user)
    drawn = np.random.default_rng(seed).permutation(candidates)[:count]
    return np.sort(drawn)


def entries_of(data: Interactions, users: Int32Array) -> tuple[Int64Array, Int32Array]:
    """The items of some users: (position of the user among those given, item), in that order."""
    counts = np.diff(data.user_offsets)[users]
    first = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(users)), counts)
    places = np.arange(len(rows)) + (data.user_offsets[users] - first)[rows]
    return rows, data.item[places]


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
            f"{trained_on[:12]}, that of --data {splits.fingerprint[:12]}): its training part may "
            "hold what it would be judged on. Name the same data, split alike"
        )
    if on in learned:
        raise DataError(
            f"{name} was refitted on the {' and '.join(learned)} part: judged on {on}, it would "
            "be asked what it was told"
        )


def head_items(train: Interactions) -> npt.NDArray[np.bool_]:
    """Which items are head: the most popular fifth (rounded up) in training."""
    by_popularity = np.argsort(-train.item_counts, kind="stable")
    head = np.zeros(train.num_items, dtype=bool)
    head[by_popularity[: int(np.ceil(HEAD_SHARE * train.num_items))]] = True
    return head


def user_metrics(
    hits: npt.NDArray[np.bool_], truth_sizes: Int64Array, ks: Sequence[int]
) -> dict[str, FloatArray]:
    """Every metric of every user, from where the hits are in their lists.

    ``hits[u, r]`` says whether the item at rank r+1 is in the truth, whose size
    must not be zero. The lists may be shorter than k when the catalogue is.
    """
    ranks = np.arange(1, hits.shape[1] + 1)
    found = np.cumsum(hits, axis=1)
    gain = np.cumsum(hits / np.log2(ranks + 1), axis=1)
    precision_sum = np.cumsum(hits * (found / ranks), axis=1)
    first = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, np.inf)
    ideal_gain = np.cumsum(1 / np.log2(np.arange(1, max(ks) + 1) + 1))
    metrics = {}
    for k in ks:
        last = min(k, hits.shape[1]) - 1
        reachable = np.minimum(k, truth_sizes)
        metrics[f"ndcg@{k}"] = gain[:, last] / ideal_gain[reachable - 1]
        metrics[f"recall@{k}"] = found[:, last] / truth_sizes
        metrics[f"precision@{k}"] = found[:, last] / k
        metrics[f"hit_rate@{k}"] = (first <= k).astype(np.float64)
        metrics[f"mrr@{k}"] = np.where(first <= k, 1 / first, 0.0)
        metrics[f"map@{k}"] = precision_sum[:, last] / reachable
    return metrics


@dataclass(frozen=True)
class Difference:
    """How much better the first of two scorers is, with its bootstrap interval."""

    metric: str
    mean: float
    """Mean over users of first minus second."""
    low: float
    high: float
    confidence: float
    """Share of the resampled means that lie between low and high."""
    users: int
    samples: int

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(
    first: Metrics,
    second: Metrics,
    metric: str = "ndcg@10",
    *,
    samples: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Difference:
    """Percentile interval of the mean difference of two scorers, judged on the same users.

    Users are drawn with replacement, both scores of a user together, so that
    what makes a user easy or hard for both does not blur the difference.
    """
    for metrics in (first, second):
        metrics.refuse_unknown(metric)
    if first.on != second.on or not np.array_equal(first.users, second.users):
        raise ConfigError(
            f"a paired comparison needs the same users and part: {len(first.users):,} on "
            f"{first.on} against {len(second.users):,} on {second.on}; evaluate both alike"
        )
    if samples < 1 or not 0 < confidence < 1:
        raise ConfigError(
            f"the bootstrap needs samples >= 1 and 0 < confidence < 1, "
            f"got {samples} and {confidence}"
        )
    difference = first.per_user[metric] - second.per_user[metric]
    means = _resampled_means(difference, samples, np.random.default_rng(seed))
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Difference(
        metric=metric,
        mean=float(difference.mean()),
        low=float(low),
        high=float(high),
        confidence=confidence,
        users=len(difference),
        samples=samples,
    )


def _resampled_means(values: FloatArray, samples: int, rng: np.random.Generator) -> FloatArray:
    rows = max(1, BOOTSTRAP_DRAWS // len(values))
    means = np.empty(samples)
    for start in range(0, samples, rows):
        size = (min(rows, samples - start), len(values))
        drawn = values.take(rng.integers(len(values), size=size))
        means[start : start + rows] = drawn.mean(axis=1)
    return means


class _Tally:
    """Adds up chunks of top-k lists."""

    def __init__(self, splits: Splits, truth: Interactions, ks: list[int]) -> None:
        self.ks = ks
        self.depth = min(ks[-1], splits.num_items)
        self.truth = truth
        self.truth_keys = truth.user.astype(np.int64) * truth.num_items + truth.item
        head = head_items(splits.train)
        self.groups = {"all": np.ones_like(head), "head": head, "tail": ~head}
        self.sizes = {
            name: np.bincount(truth.user[member[truth.item]], minlength=truth.num_users)
            for name, member in self.groups.items()
        }
        self.values: dict[str, list[dict[str, FloatArray]]] = {name: [] for name in self.groups}
        # One column more than items: that is where the -1 of an empty place in a list goes.
        self.listed = np.zeros((len(ks), splits.num_items + 1), dtype=bool)

    def add(self, users: Int32Array, items: Int32Array) -> None:
        for listed, k in zip(self.listed, self.ks, strict=True):
            listed[items[:, :k]] = True
        keys = users.astype(np.int64)[:, None] * self.truth.num_items + items
        places = np.searchsorted(self.truth_keys, keys)
        hits = (items >= 0) & (self.truth_keys.take(places, mode="clip") == keys)
        for name, member in self.groups.items():
            sizes = self.sizes[name][users]
            has_truth = sizes > 0
            group_hits = (hits & member[items])[has_truth]
            self.values[name].append(user_metrics(group_hits, sizes[has_truth], self.ks))

    def metrics(self, on: Part, users: Int32Array) -> Metrics:
        coverage = self.listed[:, :-1].mean(axis=1)
        return Metrics(
            on=on,
            users=users,
            per_user=self._joined("all"),
            coverage={f"coverage@{k}": float(c) for k, c in zip(self.ks, coverage, strict=True)},
            head=self._means("head"),
            tail=self._means("tail"),
        )

    def _joined(self, group: str) -> dict[str, FloatArray]:
        chunks = self.values[group]
        return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}

    def _means(self, group: str) -> dict[str, float]:
        joined = self._joined(group)
        count = len(next(iter(joined.values())))
        means = {name: float(values.mean()) for name, values in joined.items()} if count else {}
        return {"users": count, **means}


def _judged(truth: Interactions, users: Int32Array | None, on: Part) -> Int32Array:
    """The users asked for that have truth, ascending."""
    judged = np.unique(truth.user)
    if users is not None:
        asked = np.asarray(users)
        if asked.size and not (asked.min() >= 0 and asked.max() < truth.num_users):
            raise ConfigError(f"user codes must be in 0..{truth.num_users - 1}")
        judged = np.intersect1d(judged, asked).astype(np.int32)
    if not judged.size:
        which = "no user" if users is None else f"none of the {len(users)} users asked for"
        raise DataError(f"{which} has interactions in the {on} part: there is nothing to judge on")
    return judged
