"""An ideal low-pass term beside the filter, after GF-CF (Shen et al. 2021).

    score(u, i) = F(u, i) + α · L(u, i),   L = R D_i^-1/2 V Vᵀ D_i^1/2

with V the leading right singular vectors of ``D_u^-1/2 R D_i^-1/2``. It costs
``|I| · rank`` values, and is worth them where tastes have few dimensions. Float32, not defined
to the bit: for comparison, and for models that are not shipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.graph.edges import Edges
from cerp.graph.filter import Float32Array, GraphFilter, checked_history, unreached_by_popularity
from cerp.graph.judging import (
    FloatArray,
    best_place,
    is_clearly_better,
    judged_users,
    user_values,
)

SAMPLE = 4_000
RELATIVE_WEIGHTS = tuple(2.0**power for power in range(-8, 9, 2))
"""The factor of the term is tried at these multiples of what makes both parts equally large."""


class LowPass:
    """``L = R D_i^-1/2 V Vᵀ D_i^1/2``

    Parameters
    ----------
    edges
        The training graph.
    rank
        How many singular vectors; below both numbers of users and items.
    seed
        Draws the start of the iteration.

    """

    def __init__(self, edges: Edges, rank: int, seed: int = 0) -> None:
        from scipy.sparse import csr_array
        from scipy.sparse.linalg import svds

        smaller = min(edges.num_users, edges.num_items)
        if not 0 < rank < smaller:
            raise ConfigError(f"the rank must be between 1 and {smaller - 1}, got {rank}")
        self.edges, self.rank = edges, rank
        by_item = 1 / np.sqrt(np.maximum(edges.item_degrees, 1))
        by_user = 1 / np.sqrt(np.maximum(edges.user_degrees, 1))
        values = np.repeat(by_user, edges.user_degrees) * by_item[edges.items]
        shape = (edges.num_users, edges.num_items)
        matrix = csr_array(
            (values.astype(np.float32), edges.items, edges.user_offsets), shape=shape
        )
        start = np.random.default_rng(seed).standard_normal(smaller).astype(np.float32)
        _, singular, right = svds(matrix, k=rank, v0=start)
        leading = right[np.argsort(-singular, kind="stable")].T
        self.start: Float32Array = (leading * by_item[:, None]).astype(np.float32)
        self.end: Float32Array = (leading / by_item[:, None]).astype(np.float32)

    def score_all(self, users: Int32Array) -> Float32Array:
        """L of some users, (len(users), num_items)."""
        vectors = [self.vector(self.edges.history(user)) for user in users]
        scores: Float32Array = np.stack(vectors) @ self.end.T
        return scores

    def score_history(self, items: npt.ArrayLike) -> Float32Array:
        """L of anyone who took some items."""
        scores: Float32Array = self.end @ self.vector(checked_history(items, len(self.end)))
        return scores

    def vector(self, history: Int32Array) -> Float32Array:
        """A history in the space of the singular vectors."""
        total: Float32Array = self.start[history].sum(axis=0)
        return total


class FilterWithLowPass:
    """``F + α L``, and popularity where both have nothing to say."""

    def __init__(self, model: GraphFilter, low_pass: LowPass, alpha: float) -> None:
        self.model, self.low_pass, self.alpha = model, low_pass, alpha

    def score_all(self, users: Int32Array) -> Float32Array:
        """Scores of all items for some users of training."""
        scores = self.model.strengths(users)
        scores += np.float32(self.alpha) * self.low_pass.score_all(users)
        unreached_by_popularity(scores, self.model.edges.item_degrees)
        return scores

    def score_history(self, items: npt.ArrayLike) -> Float32Array:
        """The same for anyone who took some items."""
        scores = self.model.strength_history(items)
        scores += np.float32(self.alpha) * self.low_pass.score_history(items)
        unreached_by_popularity(scores, self.model.edges.item_degrees)
        return scores


@dataclass(frozen=True, eq=False)
class FoundLowPass:
    """What a low-pass term adds to a filter on validation."""

    low_pass: LowPass
    alpha: float
    """0 where validation does not like the term."""
    score: float
    """Of both together, on all validation users."""
    filter_score: float
    low_pass_score: float
    metric: str
    seconds: float

    @property
    def helps(self) -> bool:
        """Whether both together are better than either by more than a standard error."""
        return self.alpha > 0


def search_low_pass(
    splits: Splits,
    model: GraphFilter,
    *,
    ranks: Sequence[int] = (32, 128),
    metric: str = "ndcg@10",
    sample: int | None = SAMPLE,
    seed: int = 0,
) -> FoundLowPass:
    """Rank and α of the term, by validation.

    Parameters
    ----------
    splits
        The model's graph is that of the training part.
    model
        The filter, its exponents chosen.
    ranks
        Numbers of singular vectors to try.
    metric
        What decides, a key of `Metrics.mean`.
    sample, seed
        How many users judge a trial, drawn with the seed; None: all. The result and its parts
        are judged on all.

    """
    started = time.perf_counter()
    few, everybody = judged_users(splits, sample, seed), judged_users(splits, None, seed)
    best: tuple[float, LowPass, float] | None = None
    largest = LowPass(model.edges, max(ranks), seed)
    for rank in sorted(set(ranks)):
        low_pass = _shortened(largest, rank)
        typical = _ratio(model, low_pass, few)
        alphas = [typical * weight for weight in RELATIVE_WEIGHTS]
        scores = _values(model, low_pass, alphas, splits, few, metric).mean(axis=1).tolist()
        place = best_place(scores)
        if best is None or scores[place] > best[0]:
            best = scores[place], low_pass, alphas[place]
    assert best is not None
    _, low_pass, alpha = best
    both, alone, other = _values(model, low_pass, [alpha, 0.0, np.inf], splits, everybody, metric)
    return FoundLowPass(
        low_pass=low_pass,
        alpha=alpha if is_clearly_better(both, alone) and is_clearly_better(both, other) else 0.0,
        score=float(both.mean()),
        filter_score=float(alone.mean()),
        low_pass_score=float(other.mean()),
        metric=metric,
        seconds=time.perf_counter() - started,
    )


def _values(
    model: GraphFilter,
    low_pass: LowPass,
    alphas: Sequence[float],
    splits: Splits,
    users: Int32Array,
    metric: str,
) -> FloatArray:
    """The metric of each user for each α; infinity: the term alone."""

    def rankings(chunk: Int32Array) -> Iterator[Float32Array]:
        strengths, term = model.strengths(chunk), low_pass.score_all(chunk)
        for alpha in alphas:
            if np.isinf(alpha):
                yield term.copy()
                continue
            scores = strengths + np.float32(alpha) * term
            unreached_by_popularity(scores, model.edges.item_degrees)
            yield scores

    return user_values(rankings, len(alphas), splits, users, metric)


def _ratio(model: GraphFilter, low_pass: LowPass, users: Int32Array) -> float:
    """α at which both parts have the same root mean square over a few users."""
    few = users[:64]
    strengths, term = model.strengths(few), low_pass.score_all(few)
    return float(np.sqrt((strengths**2).mean() / max((term**2).mean(), 1e-30)))


def _shortened(low_pass: LowPass, rank: int) -> LowPass:
    """The same with the leading vectors only."""
    shorter = object.__new__(LowPass)
    shorter.edges, shorter.rank = low_pass.edges, rank
    shorter.start, shorter.end = low_pass.start[:, :rank], low_pass.end[:, :rank]
    return shorter
