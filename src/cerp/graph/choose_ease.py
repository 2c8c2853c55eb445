"""EASE with all of its weights: which regularization validation likes best."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array
from cerp.data.splits import Splits
from cerp.graph.climbing import climbed
from cerp.graph.ease import ease
from cerp.graph.edges import Edges
from cerp.graph.judging import judged_users, mean_metrics
from cerp.graph.neighbours import Bits, Neighbours, NeighbourScorer, popularity_levels, quantised
from cerp.progress import progress

LADDER = tuple(100.0 * 3.0**step for step in range(-8, 11))
"""λ from 0.015 to six million, by threes: no data set here has its best one near an end."""
FIRST = LADDER[8]
SAMPLE = 4_000
BITS: Bits = 8


@dataclass(frozen=True)
class EaseTrial:
    """A regularization, and how it did."""

    regularization: float
    score: float
    weights: int
    """That are not rounded to zero."""
    seconds: float


@dataclass(frozen=True)
class _Settings:
    """What is searched."""

    regularization: float


@dataclass(frozen=True, eq=False)
class FoundEase:
    """The weights that validation likes best."""

    neighbours: Neighbours
    best: EaseTrial
    score: float
    """On all validation users."""
    metric: str
    tried: tuple[EaseTrial, ...]


def all_weights(edges: Edges, regularization: float) -> Neighbours:
    """The weights of EASE, negative ones too, each rounded to 8 bits of its source's largest."""
    from scipy.sparse import csr_array

    dense = csr_array(ease(edges, regularization))
    return quantised(dense, BITS, popularity_levels(edges.item_degrees))


def choose_ease(
    splits: Splits,
    *,
    metric: str = "ndcg@10",
    sample: int | None = SAMPLE,
    seed: int = 0,
    quiet: bool = False,
) -> FoundEase:
    """λ up or down by threes for as long as a sample of validation users gains by it.

    Parameters
    ----------
    splits
        The data; the test part is not read.
    metric
        What decides, a key of `Metrics.mean`.
    sample, seed
        How many users judge, drawn with the seed; None: all.
    quiet
        No bar.

    """
    edges = Edges.of(splits.train)
    users = judged_users(splits, sample, seed)
    tried: dict[float, EaseTrial] = {}
    with progress("EASE", quiet=quiet) as bar:

        def judge(settings: _Settings) -> float:
            at = settings.regularization
            if at not in tried:
                started = time.perf_counter()
                neighbours = all_weights(edges, at)
                score = _judged(neighbours, splits, users, metric)
                passed = time.perf_counter() - started
                tried[at] = EaseTrial(at, score, len(neighbours), passed)
                bar.advance(1, f"{metric} {max(one.score for one in tried.values()):.4f}")
            return tried[at].score

        found = climbed(_Settings(FIRST), {"regularization": LADDER}, judge, rounds=1)
        best = tried[found.regularization]
        neighbours = all_weights(edges, best.regularization)
        score = _judged(neighbours, splits, judged_users(splits, None, seed), metric)
    return FoundEase(neighbours, best, score, metric, tuple(tried.values()))


def _judged(neighbours: Neighbours, splits: Splits, users: Int32Array, metric: str) -> float:
    scorer = NeighbourScorer(neighbours, splits.train)

    def ranking(chunk: Int32Array) -> Iterator[npt.NDArray[np.float32]]:
        yield scorer.score_all(chunk)

    return mean_metrics(ranking, 1, splits, users, metric)[0]
