"""The best item neighbours under a limit, by validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array
from cerp.data.splits import Splits
from cerp.graph.build_neighbours import Builder, Fullness, Recipe, Weights
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents
from cerp.graph.judging import judged_users, mean_metrics
from cerp.graph.neighbours import Bits, Neighbours, NeighbourScorer
from cerp.progress import progress

FIRST_BITS: Bits = 5
OTHER_BITS: tuple[tuple[Bits, ...], ...] = ((4, 3), (6, 8))
"""What is tried for the best weights only: coarser and finer, each for as long as it helps."""
FIRST_REGULARIZATION = 100.0
FACTOR = 3.0
MOST_STEPS = 4
"""How often λ is multiplied or divided by `FACTOR` in one direction."""
WORTH_A_SEARCH = 0.9
"""The filter's weights are tried where those of the cosine, their relatives, have so much of what
EASE has: exponents have to be searched first."""
SAMPLE = 4_000


@dataclass(frozen=True, eq=False)
class Candidate:
    """Neighbours under the limit and how they did."""

    neighbours: Neighbours
    recipe: Recipe
    fullness: float
    """The share of the limit that they take."""
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
    fullness: Fullness,
    most: int,
    *,
    exponents: Callable[[], Exponents] | None = None,
    metric: str = "ndcg@10",
    sample: int | None = SAMPLE,
    seed: int = 0,
    quiet: bool = False,
) -> FoundNeighbours:
    """Which weights, how many of them, and in how many bits.

    Of each kind as many weights as fit. EASE is tried with λ going up and down by threes for as
    long as validation likes it; its weights are fitted again on what is left after pruning.
    The best weights of all are then tried in other precisions.

    Parameters
    ----------
    splits
        Weights come from the training part, the choice from the validation part.
    fullness
        The share of the limit that neighbours take: the writer of a file knows.
    most
        More weights than this fit in no case.
    exponents
        Finds those of the graph filter, if its weights are worth a try; None: they are not tried.
    metric
        What decides, a key of `Metrics.mean`.
    sample, seed
        How many users judge a candidate, drawn with the seed; None: all.
    quiet
        No bar.

    """
    started = time.perf_counter()
    with progress("item neighbours", quiet=quiet) as bar:
        search = _Search(splits, fullness, most, metric, sample, seed, bar.advance)
        search.try_ease()
        search.try_weights(Recipe("cosine", FIRST_BITS))
        if exponents is not None and search.tried[-1].score >= WORTH_A_SEARCH * search.best.score:
            search.try_weights(Recipe("filter", FIRST_BITS, exponents=exponents()))
        search.try_bits()
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
        fullness: Fullness,
        most: int,
        metric: str,
        sample: int | None,
        seed: int,
        tell: Callable[[int, str], None],
    ) -> None:
        self.splits, self.metric, self.tell = splits, metric, tell
        self.users = judged_users(splits, sample, seed)
        self.builder = Builder(Edges.of(splits.train), fullness, most)
        self.tried: list[Candidate] = []
        self.best_weights: Weights | None = None

    @property
    def best(self) -> Candidate:
        """The highest score; of equal ones the first."""
        return max(self.tried, key=lambda one: one.score)

    def try_ease(self) -> None:
        """λ up and then down, each for as long as it helps."""
        tried: dict[int, float] = {}

        def score(step: int) -> float:
            if step not in tried:
                regularization = FIRST_REGULARIZATION * FACTOR**step
                tried[step] = self.try_weights(Recipe("ease", FIRST_BITS, regularization))
            return tried[step]

        for direction in (1, -1):
            step = 0
            while abs(step) < MOST_STEPS and score(step + direction) > score(step):
                step += direction
            if step:
                return

    def try_weights(self, recipe: Recipe) -> float:
        """The score of weights in the first precision."""
        weights = self.builder.weights(recipe)
        self._try(recipe, weights)
        if self.best is self.tried[-1]:
            self.best_weights = weights
        return self.tried[-1].score

    def try_bits(self) -> None:
        """The best weights in other precisions."""
        first, weights = self.best, self.best_weights
        assert weights is not None, "something was tried"
        for direction in OTHER_BITS:
            last = first.score
            for bits in direction:
                self._try(replace(first.recipe, bits=bits), weights)
                if self.tried[-1].score <= last:
                    break
                last = self.tried[-1].score

    def _try(self, recipe: Recipe, weights: Weights) -> None:
        started = time.perf_counter()
        found = self.builder.fitting(weights, recipe.bits)
        score = self.judged(found.neighbours, self.users)
        passed = time.perf_counter() - started
        self.tried.append(Candidate(found.neighbours, recipe, found.fullness, score, passed))
        self.tell(1, f"{self.metric} {self.best.score:.4f}")

    def judged(self, neighbours: Neighbours, users: Int32Array) -> float:
        """The mean of the metric over users."""
        scorer = NeighbourScorer(neighbours, self.splits.train)

        def ranking(chunk: Int32Array) -> Iterator[npt.NDArray[np.float32]]:
            yield scorer.score_all(chunk)

        return mean_metrics(ranking, 1, self.splits, users, self.metric)[0]
