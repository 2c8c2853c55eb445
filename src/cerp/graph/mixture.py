"""Vectors and filter together.

    score(u, i) = ⟨z_u, z_i⟩ + β · log(ε + F(u, i) / max F(u, ·))

The maximum runs over the items that the user has not taken; where it is 0, so is the fraction.
The first term is a float32 number, F is rounded to float32 as `cerp.graph.filter` says; the
fraction, its logarithm (that of `cerp.graph.arithmetic`), the product and the sum are float64,
and the sum is rounded once to float32. Users without training rows get popularity.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.evaluate import Scorer
from cerp.graph.arithmetic import DoubleArray, natural_log
from cerp.graph.filter import Float32Array, GraphFilter, unreached_by_popularity
from cerp.graph.judging import (
    FloatArray,
    best_place,
    is_clearly_better,
    judged_users,
    user_values,
)
from cerp.progress import Bar, progress

FIRST_SAMPLE, SAMPLE = 4_000, 20_000
"""Users who judge all pairs of β and ε, and users who then choose. Good pairs are many, and differ
by less than the error of the first: a full table of Gowalla beside the filter has a NDCG@10 of
.1071 on validation with the pair that 4,000 users choose, and of .1076 with that of all
(results/selection.json, seed 0)."""
KEPT = 6
"""Pairs that the first sample leaves."""
BETAS = tuple(4.0**power for power in range(-1, 5))
"""From 1/4 to 256."""
EPSILONS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
REFINEMENTS = ((2.0, 10**0.5), (2.0**0.5, 10**0.25))
"""Factors by which β and ε are then moved up and down."""


def log_share(strengths: Float32Array, taken: npt.NDArray[Any], epsilon: float) -> DoubleArray:
    """``log(ε + F_i / max F)`` of one user.

    Parameters
    ----------
    strengths
        F of all items, in float32.
    taken
        Codes of the items that the user has, over which the maximum does not run.
    epsilon
        Positive.

    """
    reached = np.flatnonzero(strengths)
    result = np.full(len(strengths), natural_log(np.array([epsilon]))[0])
    result[reached] = natural_log(shares(strengths[reached], peak_of(strengths, taken), epsilon))
    return result


def peak_of(strengths: Float32Array, taken: npt.NDArray[Any]) -> float:
    """The largest strength of an item that is not taken; infinity where it is 0: all shares are."""
    free = strengths.copy()
    free[taken] = 0
    return float(free.max(initial=0)) or np.inf


def shares(
    strengths: Float32Array,
    peak: float | DoubleArray,
    epsilon: float,
    out: DoubleArray | None = None,
) -> DoubleArray:
    """``ε + F / max F`` of some strengths, given that maximum as `peak_of` has it."""
    result: DoubleArray = np.divide(strengths, peak, out=out, dtype=np.float64)
    result += epsilon
    return result


class Mixture:
    """Scores of vectors and filter together.

    Parameters
    ----------
    vectors
        Any scorer; its scores are rounded to float32.
    model
        The filter.
    beta
        How much the filter counts; not negative.
    epsilon
        How much an item that no path reaches is left; positive.

    """

    def __init__(self, vectors: Scorer, model: GraphFilter, beta: float, epsilon: float) -> None:
        if not beta >= 0 or not epsilon > 0:
            raise ConfigError(
                f"a mixture needs beta >= 0 and epsilon > 0, got {beta} and {epsilon}"
            )
        self.vectors, self.model, self.beta, self.epsilon = vectors, model, beta, epsilon

    def score_all(self, users: Int32Array) -> Float32Array:
        """Scores of all items for some users of training, (len(users), num_items)."""
        scores = as_numpy(self.vectors.score_all(users))
        strengths = self.model.strengths(users)
        for place, user in enumerate(users):
            taken = self.model.edges.history(int(user))
            scores[place] = self.mixed(scores[place], strengths[place], taken)
        return scores

    def mixed(
        self, scores: Float32Array, strengths: Float32Array, taken: npt.NDArray[Any]
    ) -> Float32Array:
        """One user's scores by vectors and by filter together; popularity without a history."""
        if not len(taken):
            result = np.zeros_like(scores)
            unreached_by_popularity(result, self.model.edges.item_degrees)
            return result
        share = log_share(strengths, taken, self.epsilon)
        together: DoubleArray = scores.astype(np.float64) + self.beta * share
        return together.astype(np.float32)


@dataclass(frozen=True)
class MixtureTrial:
    """One pair of β and ε and how it did."""

    beta: float
    epsilon: float
    score: float
    users: int
    """How many users judged it."""


@dataclass(frozen=True)
class FoundMixture:
    """β and ε that validation likes best, beside the parts alone."""

    beta: float
    epsilon: float
    score: float
    """Of the mixture, on all validation users."""
    vectors_score: float
    filter_score: float
    helps: bool
    """Whether the mixture is above each of its parts by more than a standard error; otherwise
    do not ship it."""
    metric: str
    trials: tuple[MixtureTrial, ...]
    seconds: float


def search_mixture(
    splits: Splits,
    vectors: Scorer,
    model: GraphFilter,
    *,
    metric: str = "ndcg@10",
    sample: int | None = SAMPLE,
    seed: int = 0,
    quiet: bool = False,
    unit: float = 1.0,
) -> FoundMixture:
    """β from 1/4 to 256 and ε from 1e-4 to 1 by validation, coarsely and then finer.

    All pairs of a coarse grid are judged by at most 4,000 users; the six best of them, and then
    those around the best, by as many as ``sample`` says.

    Parameters
    ----------
    splits
        The filter's graph is that of the training part.
    vectors, model
        The parts.
    metric
        What decides, a key of `Metrics.mean`.
    sample, seed
        How many users choose, drawn with the seed; None: all. The result and its parts are
        judged on all.
    quiet
        No bar.
    unit
        What β is measured in: 1 where scores are logits, else how far they spread.

    """
    started = time.perf_counter()
    with progress("mixture", quiet=quiet) as bar:
        search = _Search(splits, vectors, model, metric, bar)
        search.users = judged_users(splits, min(FIRST_SAMPLE, sample or FIRST_SAMPLE), seed)
        search.judge([(unit * beta, epsilon) for epsilon in EPSILONS for beta in BETAS])
        search.ask_more(judged_users(splits, sample, seed))
        for beta_step, epsilon_step in REFINEMENTS:
            best = search.best
            search.judge(
                [
                    (best.beta * beta_step**up, best.epsilon * epsilon_step**high)
                    for high in (-1, 0, 1)
                    for up in (-1, 0, 1)
                    if (up, high) != (0, 0) and best.epsilon * epsilon_step**high <= 1
                ]
            )
        best = search.best
        search.users = judged_users(splits, None, seed)
        both, alone, other = search.values([(best.beta, best.epsilon), "vectors", "filter"])
    return FoundMixture(
        beta=best.beta,
        epsilon=best.epsilon,
        score=float(both.mean()),
        vectors_score=float(alone.mean()),
        filter_score=float(other.mean()),
        helps=is_clearly_better(both, alone) and is_clearly_better(both, other),
        metric=metric,
        trials=tuple(search.trials),
        seconds=time.perf_counter() - started,
    )


class _Search:
    """Trials so far."""

    users: Int32Array

    def __init__(
        self, splits: Splits, vectors: Scorer, model: GraphFilter, metric: str, bar: Bar
    ) -> None:
        self.splits, self.vectors, self.model = splits, vectors, model
        self.metric, self.bar = metric, bar
        self.trials: list[MixtureTrial] = []
        # A model may fill a cache when it is first asked; chunks are judged in threads.
        self.one_at_a_time = threading.Lock()

    @property
    def best(self) -> MixtureTrial:
        """The highest score by the present users; of equal ones the first."""
        known = [trial for trial in self.trials if trial.users == len(self.users)]
        return known[best_place([trial.score for trial in known])]

    def ask_more(self, users: Int32Array) -> None:
        """Let more users judge the best pairs so far."""
        if len(users) == len(self.users):
            return
        ranked = sorted(self.trials, key=lambda trial: -trial.score)[:KEPT]
        self.users = users
        self.judge(sorted(((one.beta, one.epsilon) for one in ranked), key=lambda pair: pair[1]))

    def judge(self, pairs: Sequence[tuple[float, float]]) -> None:
        """Trials of some β and ε."""
        for (beta, epsilon), values in zip(pairs, self.values(pairs), strict=True):
            self.trials.append(MixtureTrial(beta, epsilon, float(values.mean()), len(self.users)))
        best = self.best
        self.bar.advance(
            len(pairs),
            f"{self.metric} {best.score:.4f} at beta {best.beta:g}, epsilon {best.epsilon:g}",
        )

    def values(self, wanted: Sequence[tuple[float, float] | str]) -> FloatArray:
        """The metric of each user by mixtures, and by the parts that are named."""
        edges = self.model.edges

        def rankings(users: Int32Array) -> Iterator[Float32Array]:
            with self.one_at_a_time:
                scores = as_numpy(self.vectors.score_all(users))
            strengths = self.model.strengths(users)
            histories = [edges.history(int(user)) for user in users]
            unknown = np.array([not len(history) for history in histories])
            logs: dict[float, DoubleArray] = {}
            for one in wanted:
                if one == "filter":
                    result = strengths.copy()
                    unreached_by_popularity(result, edges.item_degrees)
                elif isinstance(one, str):
                    result = scores.copy()
                else:
                    beta, epsilon = one
                    if epsilon not in logs:
                        logs.clear()  # pairs come ε by ε
                        logs[epsilon] = np.stack(
                            [
                                log_share(row, history, epsilon)
                                for row, history in zip(strengths, histories, strict=True)
                            ]
                        )
                    result = (scores + beta * logs[epsilon]).astype(np.float32)
                if unknown.any():
                    popular = np.zeros(edges.num_items, dtype=np.float32)
                    unreached_by_popularity(popular, edges.item_degrees)
                    result[unknown] = popular
                yield result

        return user_values(rankings, len(wanted), self.splits, self.users, self.metric)


def as_numpy(scores: Any) -> Float32Array:
    """Scores of NumPy or torch as a float32 array of our own."""
    plain = scores if isinstance(scores, np.ndarray) else scores.detach().cpu().numpy()
    return np.array(plain, dtype=np.float32)
