"""The exponents of the filter, by validation: a coordinate search that takes seconds.

What a trial costs is the sum over paths, which depends on q and p alone; r only rescales
columns. So each pair (q, p) is tried with several r, for the price of a ranking each. Where
many users judge, some of them are asked first: a pair that is clearly behind with all of its r is
not taken to the others.

A triple replaces the best so far only where it is better by more than a standard error.
Exponents that validation cannot tell apart are many, and test users are not validation users
(on Gowalla they take more popular items): among equals, those near the start are the safer
ones, for the start is what is good on most data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cerp.data.ids import Int32Array
from cerp.data.splits import Splits
from cerp.evaluation.metrics import cutoff_of
from cerp.evaluation.ranking import top_k
from cerp.graph.arithmetic import LARGEST_EXPONENT, UNIT, DoubleArray, inverse_power
from cerp.graph.edges import Edges
from cerp.graph.filter import (
    ROWS,
    Exponents,
    Float32Array,
    GraphFilter,
    unreached_by_popularity,
)
from cerp.graph.judging import (
    FloatArray,
    Lists,
    Rankings,
    is_clearly_better,
    judged_users,
    list_values,
    user_values,
)
from cerp.progress import Bar, progress

START = Exponents(0.6875, 0.6875, 0.3125)
"""The middle of what is best on five data sets."""
STEPS = (6 * UNIT, 3 * UNIT)
"""How far a trial is from the best so far; the next step when none is better."""
LAST_STEPS = (-2 * UNIT, -UNIT, UNIT, 2 * UNIT)
"""Of r alone, at the end."""
COARSE_SAMPLE, SAMPLE = 5_000, 20_000
"""Users on whom trials are judged, at the first step and from then on. Of twice the first number
or more, so many are asked first."""
MOST_PAIRS = 30
"""Pairs (q, p) that a search may try."""
FEW_ITEMS = 6_000
"""Up to so many items, the item-item matrix is dense: its products take less time than paths."""


@dataclass(frozen=True)
class Trial:
    """One triple of exponents and how it did."""

    exponents: Exponents
    score: float
    users: int
    """How many users judged it."""
    seconds: float
    """Its share of the time of the trials that were judged together."""


@dataclass(frozen=True)
class FoundExponents:
    """The exponents that validation likes best."""

    exponents: Exponents
    score: float
    """On all validation users."""
    metric: str
    trials: tuple[Trial, ...]
    seconds: float


def search_exponents(
    splits: Splits,
    *,
    metric: str = "ndcg@10",
    start: Exponents = START,
    sample: int | None = SAMPLE,
    seed: int = 0,
    quiet: bool = False,
) -> FoundExponents:
    """Exponents by coordinate search on the validation part.

    From the best triple so far, one of r, q and p after the other is moved by a step up or
    down, q and p each time with r and r a step up and down; when nothing is better, the step
    becomes smaller, and r is refined in the end.

    Parameters
    ----------
    splits
        The graph is that of the training part.
    metric
        What decides, a key of `Metrics.mean`.
    start
        The first triple; kept unless another is clearly better.
    sample, seed
        How many users judge a trial, drawn with the seed; None: all. At the first, large step
        at most 5,000 do.
    quiet
        No bar.

    """
    started = time.perf_counter()
    with progress("graph filter", quiet=quiet) as bar:
        search = _Search(splits, metric, start, bar)
        search.users = judged_users(splits, min(COARSE_SAMPLE, sample or COARSE_SAMPLE), seed)
        search.walk(STEPS[0])
        search.users = judged_users(splits, sample, seed)
        search.walk(STEPS[1])
        search.refine_end()
        score = search.score_of_everybody()
    return FoundExponents(
        exponents=search.best,
        score=score,
        metric=metric,
        trials=tuple(search.trials),
        seconds=time.perf_counter() - started,
    )


class _Search:
    """Trials so far, and the best of them."""

    users: Int32Array

    def __init__(self, splits: Splits, metric: str, start: Exponents, bar: Bar) -> None:
        self.splits, self.metric, self.best, self.bar = splits, metric, start, bar
        self.edges = Edges.of(splits.train)
        self.trials: list[Trial] = []
        self.known: dict[Exponents, FloatArray] = {}

    @property
    def pairs(self) -> int:
        """How many pairs (q, p) the present users have tried."""
        return len({(one.q, one.p) for one in self.known})

    def walk(self, step: float) -> None:
        """Coordinate search by one step, judged by the present users."""
        if self.known and len(self.known[self.best]) != len(self.users):
            self.known.clear()
        if self.best not in self.known:
            here, ends = self.best, (0, step, 2 * step, -step, -2 * step)
            self.judge(_with_ends(here.q, here.p, [here.r + end for end in ends]))
        while True:
            before = self.best
            for name in ("r", "q", "p"):
                self.try_line(name, step)
            if self.best == before or self.pairs >= MOST_PAIRS:
                return

    def refine_end(self) -> None:
        """The r around the best one, in the smallest steps."""
        self.try_all(self.best.q, self.best.p, [self.best.r + step for step in LAST_STEPS])

    def try_line(self, name: str, step: float) -> None:
        """Go up one coordinate as long as it helps, or else down."""
        before = self.best
        for direction in (step, -step):
            while self.pairs < MOST_PAIRS:
                here = self.best
                moved = {"q": here.q, "p": here.p, "r": here.r}
                moved[name] += direction
                r = moved["r"]
                ends = [r, r + direction] if name == "r" else [r - step, r, r + step]
                self.try_all(moved["q"], moved["p"], ends)
                if self.best == here:
                    break
            if self.best != before:
                return

    def try_all(self, q: float, p: float, ends: Sequence[float]) -> None:
        """One pair of q and p with several r; the best of them, if it is clearly better."""
        if not (0 <= q <= LARGEST_EXPONENT and 0 <= p <= LARGEST_EXPONENT):
            return
        wanted = _with_ends(q, p, ends)
        self.judge([one for one in wanted if one not in self.known])
        asked = [one for one in wanted if len(self.known[one]) == len(self.users)]
        challenger = max(asked, key=lambda one: self.known[one].mean(), default=self.best)
        if is_clearly_better(self.known[challenger], self.known[self.best]):
            self.best = challenger

    def judge(self, candidates: list[Exponents]) -> None:
        """Trials with one q and one p, by the present users or, if clearly behind, by some."""
        if not candidates:
            return
        started = time.perf_counter()
        values = self.raced(candidates)
        seconds = (time.perf_counter() - started) / len(candidates)
        for exponents, of_users in zip(candidates, values, strict=True):
            self.known[exponents] = of_users
            mean = float(of_users.mean())
            self.trials.append(Trial(exponents, mean, len(of_users), seconds))
        score = self.known[self.best].mean()
        self.bar.advance(len(candidates), f"{self.metric} {score:.4f} at {self.best}")

    def raced(self, candidates: list[Exponents]) -> FloatArray:
        """The metric of each user, or of those asked first where all candidates are behind."""
        every = len(self.users) // COARSE_SAMPLE
        if every < 2 or self.best not in self.known:
            return self.values(candidates, self.users)
        is_first = np.arange(len(self.users)) % every == 0
        first = self.values(candidates, self.users[is_first])
        best = self.known[self.best][is_first]
        if all(is_clearly_better(best, one) for one in first):
            return first
        values = np.empty((len(candidates), len(self.users)))
        values[:, is_first] = first
        values[:, ~is_first] = self.values(candidates, self.users[~is_first])
        return values

    def score_of_everybody(self) -> float:
        """The best triple on all validation users."""
        values = self.known[self.best]
        others = np.setdiff1d(judged_users(self.splits, None, 0), self.users)
        if len(others):
            values = np.concatenate([values, self.values([self.best], others)[0]])
        return float(values.mean())

    def values(self, candidates: list[Exponents], users: Int32Array) -> FloatArray:
        """The metric of each user for each of some triples with one q and one p."""
        ends = [inverse_power(self.edges.item_degrees, one.r) for one in candidates]
        if self.edges.num_items <= FEW_ITEMS:
            rankings = self.rankings_by_items(candidates[0], ends)
            return user_values(rankings, len(ends), self.splits, users, self.metric)
        lists = self.lists_by_paths(candidates[0], np.stack(ends))
        return list_values(lists, len(ends), self.splits, users, self.metric)

    def lists_by_paths(self, exponents: Exponents, ends: DoubleArray) -> Lists:
        """The best items by each of the ends, from the sums over paths.

        Scores of a few users are ranked together, by all ends: for each user by itself, calls of
        NumPy would take longer than what they compute.
        """
        k, edges = cutoff_of(self.metric), self.edges
        model = GraphFilter(edges, exponents)

        def lists(users: Int32Array) -> Iterator[Int32Array]:
            found = np.empty((len(ends), len(users), min(k, edges.num_items)), dtype=np.int32)
            histories = [edges.history(int(user)) for user in users]
            scores = np.empty((len(ends), ROWS, edges.num_items), dtype=np.float32)
            every_sum = model.sums(histories)
            for begin in range(0, len(users), ROWS):
                some = histories[begin : begin + ROWS]
                for place, history in enumerate(some):
                    sums = next(every_sum)
                    sums[history] = 0
                    for row, end in zip(scores[:, place], ends, strict=True):
                        np.multiply(sums, end, out=row, casting="same_kind")
                rows = scores[:, : len(some)].reshape(-1, edges.num_items)
                items, best = top_k(rows, k)
                for short in np.flatnonzero(best[:, -1] <= 0):  # too few items are reached
                    items[short] = self.with_popular(rows[short], some[short % len(some)], model, k)
                found[:, begin : begin + ROWS] = items.reshape(len(ends), len(some), -1)
            return iter(found)

        return lists

    def with_popular(
        self, scores: Float32Array, history: Int32Array, model: GraphFilter, k: int
    ) -> Int32Array:
        """The best items of a user whom paths lead to fewer than k: popular ones follow."""
        filled = np.where(scores == 0, model.floor, scores)
        filled[history] = -np.inf
        filled[self.edges.item_degrees == 0] = -np.inf
        return top_k(filled[None], k)[0].reshape(-1)

    def rankings_by_items(self, exponents: Exponents, ends: list[DoubleArray]) -> Rankings:
        """The scores by each of the ends, to float32's precision, from ``Rᵀ D_q R``."""
        from scipy.sparse import csr_array

        edges = self.edges
        shape = (edges.num_users, edges.num_items)
        taken = csr_array(
            (np.ones(len(edges), np.float32), edges.items, edges.user_offsets), shape=shape
        )
        middle = inverse_power(edges.user_degrees, exponents.q)
        start = inverse_power(edges.item_degrees, exponents.p).astype(np.float32)
        weighted, scaled = taken.copy(), taken.copy()
        weighted.data = np.repeat(middle, edges.user_degrees).astype(np.float32)
        scaled.data = start[edges.items]
        by_items = (taken.T.tocsr() @ weighted).toarray()

        def rankings(users: Int32Array) -> Iterator[Float32Array]:
            rows = scaled[users] @ by_items
            for end in ends:
                scores = np.multiply(rows, end, dtype=np.float32, casting="same_kind")
                unreached_by_popularity(scores, edges.item_degrees)
                yield scores

        return rankings


def _with_ends(q: float, p: float, ends: Sequence[float]) -> list[Exponents]:
    """One q and p with each r that is in range; of those that are rounded alike, one."""
    allowed = [Exponents(q, p, r) for r in ends if 0 <= r <= LARGEST_EXPONENT]
    return list(dict.fromkeys(allowed))
