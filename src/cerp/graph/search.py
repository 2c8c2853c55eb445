"""The exponents of the filter, by validation: a coordinate search that takes seconds.

What a trial costs is the sum over paths, which depends on q and p alone; r only rescales
columns. So each pair (q, p) is tried with several r, for the price of a ranking each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array
from cerp.data.splits import Splits
from cerp.graph.arithmetic import LARGEST_EXPONENT, UNIT, DoubleArray, inverse_power
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter, unreached_by_popularity
from cerp.graph.judging import judged_users, mean_metrics
from cerp.progress import Bar, progress

START = Exponents(0.625, 0.625, 0.5)
STEPS = (6 * UNIT, 3 * UNIT)
"""How far a trial is from the best so far; the next step when none is better."""
SAMPLE = 4_000
"""Users on whom trials are judged; the best trials are then judged on all."""
FINALISTS = 5
MOST_PAIRS = 40
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

    From the best triple so far, q and p are moved by a step up and down, each time with r and
    r a step up and down; when nothing is better, the step becomes smaller. The best few are
    judged again on all validation users, and r is refined to 1/32 for the best of those.

    Parameters
    ----------
    splits
        The graph is that of the training part.
    metric
        What decides, a key of `Metrics.mean`.
    start
        The first triple.
    sample
        How many users judge a trial, drawn with ``seed``; None: all.
    quiet
        No bar.

    """
    started = time.perf_counter()
    with progress("graph filter", quiet=quiet) as bar:
        search = _Search(splits, metric, judged_users(splits, sample, seed), bar)
        search.walk(start)
        everybody = judged_users(splits, None, seed)
        if len(everybody) > len(search.users):
            search.finals(everybody)
        search.refine_end()
    best = search.best
    return FoundExponents(
        exponents=best.exponents,
        score=best.score,
        metric=metric,
        trials=tuple(search.trials),
        seconds=time.perf_counter() - started,
    )


class _Search:
    """Trials so far, and the best of them."""

    def __init__(self, splits: Splits, metric: str, users: Int32Array, bar: Bar) -> None:
        self.splits, self.metric, self.users, self.bar = splits, metric, users, bar
        self.edges = Edges.of(splits.train)
        self.trials: list[Trial] = []
        self.known: dict[Exponents, Trial] = {}
        self.pairs: set[tuple[float, float]] = set()

    @property
    def best(self) -> Trial:
        """The highest score among trials judged by the present users; of equal ones the first."""
        return max(self.known.values(), key=lambda trial: trial.score)

    def walk(self, start: Exponents) -> None:
        """Coordinate search, step by step."""
        self.try_pair(start.q, start.p, [start.r - STEPS[0], start.r, start.r + STEPS[0]])
        for step in STEPS:
            improved = True
            while improved and len(self.pairs) < MOST_PAIRS:
                improved = any([self.try_line(name, step) for name in ("q", "p", "r")])

    def try_line(self, name: str, step: float) -> bool:
        """Go up one coordinate as long as it helps, or else down; whether anything helped."""
        before = self.best
        for direction in (step, -step):
            here = self.best
            while len(self.pairs) < MOST_PAIRS:
                moved = {"q": here.exponents.q, "p": here.exponents.p, "r": here.exponents.r}
                moved[name] += direction
                if not 0 <= moved[name] <= LARGEST_EXPONENT:
                    break
                r = moved["r"]
                self.try_pair(moved["q"], moved["p"], [r - step, r, r + step])
                if self.best is here:
                    break
                here = self.best
            if self.best is not before:
                return True
        return False

    def try_pair(self, q: float, p: float, ends: list[float]) -> None:
        """One pair of q and p with several r; those already known are not tried again."""
        wanted = [Exponents(q, p, r) for r in ends if 0 <= r <= LARGEST_EXPONENT]
        self.judge([one for one in wanted if one not in self.known])

    def finals(self, users: Int32Array) -> None:
        """Judge the best trials again on more users; only those count from now on."""
        ranked = sorted(self.known.values(), key=lambda trial: -trial.score)
        self.users, self.known = users, {}
        finalists = [trial.exponents for trial in ranked[:FINALISTS]]
        for q, p in dict.fromkeys((one.q, one.p) for one in finalists):
            self.judge([one for one in finalists if (one.q, one.p) == (q, p)])

    def refine_end(self) -> None:
        """The r around the best one, in the smallest steps."""
        q, p, r = self.best.exponents.q, self.best.exponents.p, self.best.exponents.r
        self.try_pair(q, p, [r + steps * UNIT for steps in (-2, -1, 1, 2)])

    def judge(self, candidates: list[Exponents]) -> None:
        """Candidates with one q and one p."""
        if not candidates:
            return
        started = time.perf_counter()
        sums = self.sums(candidates[0])
        degrees = self.edges.item_degrees
        ends = [inverse_power(degrees, one.r) for one in candidates]

        def rankings(users: Int32Array) -> Iterator[npt.NDArray[np.float32]]:
            rows = sums(users)
            for end in ends:
                scores = np.multiply(rows, end, dtype=np.float32, casting="same_kind")
                unreached_by_popularity(scores, degrees)
                yield scores

        scores = mean_metrics(rankings, len(candidates), self.splits, self.users, self.metric)
        seconds = (time.perf_counter() - started) / len(candidates)
        for exponents, score in zip(candidates, scores, strict=True):
            trial = Trial(exponents, score, len(self.users), seconds)
            self.trials.append(trial)
            self.known[exponents] = trial
        self.pairs.add((candidates[0].q, candidates[0].p))
        best = self.best
        self.bar.advance(len(candidates), f"{self.metric} {best.score:.4f} at {best.exponents}")

    def sums(self, exponents: Exponents) -> Callable[[Int32Array], npt.NDArray[np.floating]]:
        """What gives the sums over paths of some users, without r."""
        if self.edges.num_items <= FEW_ITEMS:
            return self.sums_by_items(exponents)
        model = GraphFilter(self.edges, exponents)

        def rows(users: Int32Array) -> DoubleArray:
            result = np.empty((len(users), model.num_items))
            histories = [self.edges.history(user) for user in users]
            for place, row in enumerate(model.sums(histories)):
                result[place] = row
            return result

        return rows

    def sums_by_items(
        self, exponents: Exponents
    ) -> Callable[[Int32Array], npt.NDArray[np.float32]]:
        """The same to float32's precision, from the item-item matrix ``Rᵀ D_q R``."""
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
        return lambda users: scaled[users] @ by_items
