"""The best item neighbours under a byte limit, by validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.graph.arithmetic import inverse_power
from cerp.graph.ease import cosine, ease, refitted, strongest_cooccurrence
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents
from cerp.graph.judging import judged_users, mean_metrics
from cerp.graph.neighbours import (
    Bits,
    Neighbours,
    NeighbourScorer,
    estimated_bytes,
    pruned,
    quantised,
)
from cerp.progress import progress

Kind = Literal["ease", "cosine", "filter"]

DENSE_ITEMS = 6_000
"""Up to so many items the support comes from EASE with all weights, beyond from the cosine."""
PER_ITEM = 100
"""Sources of a target before anything is pruned, where the support comes from elsewhere."""
FIRST_REGULARIZATION = 100.0
FACTOR = 3.0
MOST_STEPS = 4
"""How often λ is multiplied or divided by `FACTOR` in one direction."""
SAMPLE = 4_000
SPARE = 0.98
"""Share of the limit that a guess of the number of entries aims at."""
MOST_GUESSES = 5


@dataclass(frozen=True, eq=False)
class Candidate:
    """One model under the limit and how it did."""

    neighbours: Neighbours
    kind: Kind
    regularization: float | None
    bytes: int
    score: float
    seconds: float


@dataclass(frozen=True, eq=False)
class FoundNeighbours:
    """The neighbours that validation likes best."""

    best: Candidate
    score: float
    """On all validation users."""
    metric: str
    tried: tuple[Candidate, ...]
    seconds: float


def choose_neighbours(
    splits: Splits,
    max_bytes: int,
    *,
    kinds: Sequence[Kind] = ("ease", "cosine", "filter"),
    exponents: Exponents | None = None,
    precisions: Sequence[Bits] = (4, 8),
    metric: str = "ndcg@10",
    size_of: Callable[[Neighbours], int] = estimated_bytes,
    sample: int | None = SAMPLE,
    seed: int = 0,
    quiet: bool = False,
) -> FoundNeighbours:
    """Which weights, how many of them, and in how many bits.

    For each kind and precision as many entries as fit. EASE is tried with λ going up and down
    by threes for as long as validation likes it; its weights are fitted again on what is left
    after pruning.

    Parameters
    ----------
    splits
        Weights come from the training part, the choice from the validation part.
    max_bytes
        Largest size, as ``size_of`` tells it.
    kinds
        Where weights may come from; ``filter`` is left out where no ``exponents`` are given.
    exponents
        Of the graph filter.
    precisions
        Bits of a weight to try.
    metric
        What decides, a key of `Metrics.mean`.
    size_of
        Bytes of neighbours; the writer of a file passes its own measure.
    sample, seed
        How many users judge a candidate, drawn with the seed; None: all.
    quiet
        No bar.

    """
    started = time.perf_counter()
    chosen = [kind for kind in kinds if kind != "filter" or exponents is not None]
    if not chosen:
        raise ConfigError("neighbours need a source of weights: ease, cosine, or exponents")
    with progress("item neighbours", quiet=quiet) as bar:
        search = _Search(splits, max_bytes, metric, size_of, precisions, sample, seed)
        for kind in chosen:
            search.try_kind(kind, exponents)
            bar.advance(1, f"{metric} {search.best.score:.4f}")
        score = search.judged(search.best.neighbours, judged_users(splits, None, seed))
    return FoundNeighbours(
        best=search.best,
        score=score,
        metric=metric,
        tried=tuple(search.tried),
        seconds=time.perf_counter() - started,
    )


class _Search:
    """Candidates so far, and the best of them."""

    def __init__(
        self,
        splits: Splits,
        max_bytes: int,
        metric: str,
        size_of: Callable[[Neighbours], int],
        precisions: Sequence[Bits],
        sample: int | None,
        seed: int,
    ) -> None:
        self.splits, self.max_bytes, self.metric = splits, max_bytes, metric
        self.size_of, self.precisions = size_of, precisions
        self.users = judged_users(splits, sample, seed)
        self.edges = Edges.of(splits.train)
        self.tried: list[Candidate] = []

    @property
    def best(self) -> Candidate:
        """The highest score; of equal ones the first."""
        return max(self.tried, key=lambda one: one.score)

    def try_kind(self, kind: Kind, exponents: Exponents | None) -> None:
        """All candidates of one kind."""
        if kind == "ease":
            self.try_ease()
            return
        degrees = self.edges.item_degrees
        # A weight is used as often as its source is taken; half of that in the exponent keeps
        # the loud weights of rare sources as well.
        importance = np.sqrt(degrees.astype(np.float64))
        if kind == "cosine":
            weights = cosine(self.edges, PER_ITEM)
        else:
            assert exponents is not None
            weights = strongest_cooccurrence(
                self.edges,
                PER_ITEM,
                start=inverse_power(degrees, exponents.p),
                middle=inverse_power(self.edges.user_degrees, exponents.q),
                end=inverse_power(degrees, exponents.r),
                importance=importance,
            )
        for bits in self.precisions:
            self.fit(kind, bits, weights, importance)

    def try_ease(self) -> None:
        """λ up and then down, each for as long as it helps."""
        tried: dict[int, float] = {}

        def score(step: int) -> float:
            if step not in tried:
                tried[step] = self.ease_at(FIRST_REGULARIZATION * FACTOR**step)
            return tried[step]

        for direction in (1, -1):
            step = 0
            while abs(step) < MOST_STEPS and score(step + direction) > score(step):
                step += direction
            if step:
                return

    def ease_at(self, regularization: float) -> float:
        """The best score of EASE with one λ."""
        from scipy.sparse import csr_array

        if self.edges.num_items <= DENSE_ITEMS:
            weights = csr_array(np.maximum(ease(self.edges, regularization), 0))
        else:
            weights = refitted(self.edges, self.cosine_support, regularization)
        weights = pruned(weights, self.max_bytes)  # a weight takes a byte or more, or nearly so
        before = len(self.tried)
        for bits in self.precisions:
            self.fit("ease", bits, weights, regularization=regularization)
        return max((one.score for one in self.tried[before:]), default=-np.inf)

    @cached_property
    def cosine_support(self) -> Any:
        """Sources that speak for each target where EASE with all weights is too large."""
        return cosine(self.edges, PER_ITEM)

    def fit(
        self,
        kind: Kind,
        bits: Bits,
        weights: Any,
        importance: npt.NDArray[np.float64] | None = None,
        regularization: float | None = None,
    ) -> None:
        """As many entries as the limit holds, judged."""
        started = time.perf_counter()
        count = self.fitting_count(weights, bits, importance)
        fitting: tuple[int, Neighbours] | None = None
        for _ in range(MOST_GUESSES):
            self.refuse_none(count)
            kept = pruned(weights, count, importance)
            if regularization is not None:
                kept = refitted(self.edges, kept, regularization)
            found = quantised(kept, bits, self.edges.item_degrees)
            size = self.size_of(found)
            if size <= self.max_bytes and (fitting is None or size > fitting[0]):
                fitting = size, found
            # Fitted weights round to zero more or less often than those they were pruned by.
            guess = min(weights.nnz, int(count * SPARE * self.max_bytes / max(size, 1)))
            if SPARE * SPARE * self.max_bytes < size <= self.max_bytes or guess == count:
                break
            count = guess
        if fitting is None:
            raise ConfigError(f"no item neighbours fit into {self.max_bytes:,} bytes; allow more")
        size, found = fitting
        score = self.judged(found, self.users)
        passed = time.perf_counter() - started
        self.tried.append(Candidate(found, kind, regularization, size, score, passed))

    def fitting_count(
        self, weights: Any, bits: Bits, importance: npt.NDArray[np.float64] | None
    ) -> int:
        """About how many of the largest weights fit, as they are."""
        available = int(weights.nnz)
        count = min(available, self.max_bytes * 8 // (bits + 5))
        for _ in range(MOST_GUESSES):
            self.refuse_none(count)
            size = self.size_of(quantised(pruned(weights, count, importance), bits))
            # Sizes are nearly in proportion to the number of entries.
            guess = min(available, int(count * SPARE * self.max_bytes / max(size, 1)))
            if SPARE * SPARE * self.max_bytes < size <= self.max_bytes or guess == count:
                break
            count = guess
        return count

    def refuse_none(self, count: int) -> None:
        """Refuse a limit under which nothing is left."""
        if count < 1:
            raise ConfigError(f"no item neighbours fit into {self.max_bytes:,} bytes; allow more")

    def judged(self, neighbours: Neighbours, users: Int32Array) -> float:
        """The mean of the metric over users."""
        scorer = NeighbourScorer(neighbours, self.splits.train)

        def ranking(chunk: Int32Array) -> Iterator[npt.NDArray[np.float32]]:
            yield scorer.score_all(chunk)

        return mean_metrics(ranking, 1, self.splits, users, self.metric)[0]
