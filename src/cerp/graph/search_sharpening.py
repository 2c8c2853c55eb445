"""How to sharpen the filter, by validation: from the plain filter's exponents on.

Strengths are tried as shares of the inverse of the spectral radius of ``K D^-m``: at 1 the
smoothest direction is taken away altogether. What a trial costs are the hops, which depend on q, p
and m alone; so each triple is tried with all strengths and times, for the price of a ranking each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cerp.data.ids import Int32Array
from cerp.data.splits import Splits
from cerp.graph.arithmetic import LARGEST_EXPONENT, UNIT, inverse_power
from cerp.graph.climbing import climbed
from cerp.graph.edges import Edges
from cerp.graph.filter import (
    Exponents,
    Float32Array,
    GraphFilter,
    unreached_by_popularity,
)
from cerp.graph.judging import is_clearly_better, judged_users, user_values
from cerp.graph.search import FoundExponents
from cerp.graph.sharpening import LARGEST_STRENGTH, ItemHops, Sharpening
from cerp.graph.two_hops import TwoHops
from cerp.progress import Bar, progress

SAMPLE = 2_000
"""Users who judge a trial."""
STEPS = (4 * UNIT, 2 * UNIT)
"""How far a trial is from the best so far, in the first climb and in the second."""
ROUNDS = 2
"""Passes over the four exponents in each climb."""
FIRST_M = 0.875
P_SHARE, R_SHARE = 0.75, 0.5
"""Where the search starts, beside the plain filter's exponents: sharpening is what holds popular
items down, so that less of that is left to p and r."""
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8, 1.0, 1.25)
"""Of the inverse of the spectral radius."""
TIMES = (1, 2)


@dataclass(frozen=True)
class SharpeningTrial:
    """Four exponents, and the strength and times that were best with them."""

    exponents: Exponents
    sharpening: Sharpening
    score: float
    users: int
    """How many users judged it."""
    seconds: float


@dataclass(frozen=True)
class FoundSharpening:
    """The sharpened filter that validation likes best."""

    exponents: Exponents
    """Of the plain filter where that is as good."""
    sharpening: Sharpening | None
    """None: validation cannot tell the best from the plain filter, or likes that better."""
    score: float
    """On all validation users."""
    plain_score: float
    """Of the plain filter with its own exponents, on the same."""
    metric: str
    trials: tuple[SharpeningTrial, ...]
    seconds: float
    """The search for the plain filter's exponents included."""


def search_sharpening(
    splits: Splits,
    plain: FoundExponents,
    *,
    sample: int | None = SAMPLE,
    seed: int = 0,
    quiet: bool = False,
) -> FoundSharpening:
    """Exponents, strength and times by coordinate search on the validation part.

    Parameters
    ----------
    splits
        The graph is that of the training part.
    plain
        The plain filter, whose exponents are the start and whose metric decides. The sharpened one
        replaces it where it is better by more than a standard error.
    sample, seed
        How many users judge a trial, drawn with the seed; None: all. The result is judged on all.
    quiet
        No bar.

    """
    started = time.perf_counter()
    with progress("sharpening", quiet=quiet) as bar:
        search = _Search(splits, plain.metric, judged_users(splits, sample, seed), bar)
        q, p, r = plain.exponents.q, plain.exponents.p, plain.exponents.r
        lower = Exponents(q, P_SHARE * p, R_SHARE * r)
        starts = [_Point(q, p, r, FIRST_M), _Point(q, lower.p, lower.r, FIRST_M)]
        found = max(starts, key=search.score)
        for step in STEPS:
            found = climbed(found, found.ladders(step), search.score, rounds=ROUNDS)
        best = search.known[found]
        edges, everybody = search.edges, judged_users(splits, None, seed)
        models = [
            GraphFilter(edges, best.exponents, best.sharpening),
            GraphFilter(edges, plain.exponents),
        ]
        sharp, blunt = user_values(
            lambda users: (model.score_all(users) for model in models),
            len(models),
            splits,
            everybody,
            plain.metric,
        )
    is_better = is_clearly_better(sharp, blunt)
    return FoundSharpening(
        exponents=best.exponents if is_better else plain.exponents,
        sharpening=best.sharpening if is_better else None,
        score=float((sharp if is_better else blunt).mean()),
        plain_score=float(blunt.mean()),
        metric=plain.metric,
        trials=tuple(search.known.values()),
        seconds=plain.seconds + time.perf_counter() - started,
    )


@dataclass(frozen=True)
class _Point:
    """Where the search is."""

    q: float
    p: float
    r: float
    m: float

    def ladders(self, step: float) -> dict[str, list[float]]:
        """What each exponent may become, from here up and down."""
        far = int(LARGEST_EXPONENT / step)
        return {
            name: [
                value
                for count in range(-far, far + 1)
                if 0 <= (value := getattr(self, name) + count * step) <= LARGEST_EXPONENT
            ]
            for name in ("m", "q", "p", "r")
        }


class _Search:
    """Trials so far."""

    def __init__(self, splits: Splits, metric: str, users: Int32Array, bar: Bar) -> None:
        self.splits, self.metric, self.users, self.bar = splits, metric, users, bar
        self.edges = Edges.of(splits.train)
        self.known: dict[_Point, SharpeningTrial] = {}

    def score(self, point: _Point) -> float:
        """With the best strength and times."""
        if point not in self.known:
            self.known[point] = self.tried(point)
            best = max(self.known.values(), key=lambda trial: trial.score)
            self.bar.advance(1, f"{self.metric} {best.score:.4f} at {best.exponents}")
        return self.known[point].score

    def tried(self, point: _Point) -> SharpeningTrial:
        """All strengths and times with four exponents."""
        started = time.perf_counter()
        hops = ItemHops(self.edges, point.q, point.m)
        radius = hops.radius()
        ways = [
            Sharpening(point.m, min(share / radius, LARGEST_STRENGTH), times)
            for times in TIMES
            for share in SHARES
        ]
        end = inverse_power(self.edges.item_degrees, point.r)[:, None]
        start, two_hops = inverse_power(self.edges.item_degrees, point.p), TwoHops(self.edges)

        def rankings(users: Int32Array) -> Iterator[Float32Array]:
            histories = [self.edges.history(int(user)) for user in users]
            sums = two_hops.sums(histories, start, hops.middle)
            terms = [np.stack([row.copy() for row in sums], axis=1)]
            for _ in range(max(TIMES)):
                terms.append(hops.of(terms[-1]))
            terms = [term * end for term in terms]
            for way in ways:
                scores = terms[0] - way.times * way.strength * terms[1]
                if way.times == 2:
                    scores += way.strength**2 * terms[2]
                ranked = np.ascontiguousarray(np.maximum(scores, 0).T, dtype=np.float32)
                unreached_by_popularity(ranked, self.edges.item_degrees)
                yield ranked

        values = user_values(rankings, len(ways), self.splits, self.users, self.metric)
        means = values.mean(axis=1)
        best = int(np.argmax(means))
        return SharpeningTrial(
            Exponents(point.q, point.p, point.r),
            ways[best],
            float(means[best]),
            len(self.users),
            time.perf_counter() - started,
        )
