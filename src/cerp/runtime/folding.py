"""A vector for someone who was not there in training, from items they like.

Take the vectors of trained users for what a user can be: a Gaussian with their
mean m and covariance C. Take the scores for the logits of what they like: the
chance of item i is ``p_i ∝ exp⟨z, v_i⟩``. Then the most probable z after n liked
items with the mean vector y solves ``C⁻¹(z − m) = n·(y − a(z))``, where a(z) is
the expected item. One Newton step towards it, from z = m:

    ``z = m + (I + n C S)⁻¹ n C (y − a)``,  ``a = Σ p_i v_i``,  ``S = Σ p_i (v_i − a)(v_i − a)ᵀ``

so that one item moves the mean user a little and twenty decide. A file without users
has their mean and their variances alone, and C is diagonal there. It needs nothing
but the vectors, and serves matrix factorisation and LightGCN alike. Beside it
were measured the mean of the liked vectors, ridge regression on them, and
LightGCN's own propagation to the new user: see results/fold_in.json.

Scores of implicit ALS are no logits: they are fitted to 0 and 1 by least squares. So its file
says α and λ, and someone new solves the user's step of ALS. Of few items that knows little, so
that the mean user m counts for a tenth of what is not liked:

    ``z = argmin Σ_i c_i (t_i − ⟨z, v_i⟩)² + λ‖z‖² + κ (z − m)ᵀ G (z − m)``

with ``G = Σ_i v_i v_iᵀ + λI``, t_i = 1 and c_i = α for liked items, 0 and 1 for others, κ = 1/10.
On ml-100k's validation part (rank 16) it has NDCG@10 .134, .154, .182 and .213 from 1, 3, 10 and
all items of a user, the plain step (κ = 0) .110, .143, .177 and .213, the Newton step above .110,
.133, .167 and .184; the users' own vectors have .213.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from cerp.artifact.model import FloatArray, LeastSquares, Tastes
from cerp.data.ids import Int32Array
from cerp.errors import ScoreError
from cerp.graph.history_sums import HistorySums
from cerp.runtime.scoring import blocks

DoubleArray = npt.NDArray[np.float64]

MOST_EVIDENCE = 32
"""Items count as at most so many. They are not independent draws from the model's own
softmax, and of many the step from the mean user goes too far."""


MEAN_USER = 0.1
"""κ: how much the mean user counts in the least squares of someone new."""
TOO_LARGE = (
    "the vectors of this model are too large to make one for someone new; it has diverged in "
    "training"
)


class FoldIn:
    """Turns liked items into the vector of a new user."""

    def __init__(self, mean: DoubleArray, covariance: DoubleArray, items: FloatArray) -> None:
        self.items, self.mean, self.user_covariance = items, mean, covariance
        scores = items @ self.mean
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        self.expected = chances @ items
        spread = np.zeros_like(covariance)
        for block in blocks(len(items), 8 * items.shape[1]):
            spread += _covariance(items[block], self.expected, chances[block])
        self.spread = covariance @ spread

    @classmethod
    def of_users(
        cls, users: Callable[[Int32Array], FloatArray], num_users: int, items: FloatArray
    ) -> FoldIn:
        """By the vectors of the users there are.

        ``users`` gives those of some. They are asked for in blocks, since all of them together
        may be more than fits.
        """
        dim = items.shape[1]
        mean = mean_user(users, num_users, dim)
        covariance = np.zeros((dim, dim))
        for some in _in_blocks(num_users, dim):
            covariance += _covariance(users(some), mean, np.full(len(some), 1 / num_users))
        return cls(mean, covariance, items)

    @classmethod
    def of_tastes(cls, tastes: Tastes, items: FloatArray) -> FoldIn:
        """By what a file without users says of them."""
        variance = tastes.variance.astype(np.float64)
        return cls(tastes.mean.astype(np.float64), np.diag(variance), items)

    def vector(self, liked: Int32Array) -> DoubleArray:
        """The vector z of someone who likes these items, by distinct codes; of none, the mean."""
        if not len(liked):
            return self.mean
        evidence = min(len(liked), MOST_EVIDENCE)
        surprise = self.items[liked].mean(axis=0, dtype=np.float64) - self.expected
        step = _solved(
            np.eye(len(self.mean)) + evidence * self.spread,
            evidence * self.user_covariance @ surprise,
        )
        vector: DoubleArray = self.mean + step
        return vector


class AlsFoldIn:
    """The user's step of ALS, with the mean user as what is known before any item."""

    def __init__(self, mean: DoubleArray, items: FloatArray, told: LeastSquares) -> None:
        self.items, self.alpha = items, told.alpha
        double = items.astype(np.float64)
        self.gram = double.T @ double + told.regularization * np.eye(items.shape[1])
        self.prior = MEAN_USER * self.gram @ mean

    def vector(self, liked: Int32Array) -> DoubleArray:
        """The vector z of someone who likes these items, by distinct codes."""
        chosen = self.items[liked].astype(np.float64)
        return _solved(
            (1 + MEAN_USER) * self.gram + (self.alpha - 1) * chosen.T @ chosen,
            self.prior + self.alpha * chosen.sum(axis=0),
        )


class SummedHistory:
    """``Σ_j w_j v_j``: what the vectors of the file were made for (`cerp.graph.history_sums`)."""

    def __init__(self, sums: HistorySums, items: FloatArray) -> None:
        self.sums, self.items = sums, items

    def vector(self, liked: Int32Array) -> DoubleArray:
        """The vector of someone who likes these items, by distinct codes."""
        return self.sums.vector(self.items, liked)


def mean_user(users: Callable[[Int32Array], FloatArray], num_users: int, dim: int) -> DoubleArray:
    """The mean of all users' vectors; ``users`` gives those of some."""
    sums = [users(some).sum(axis=0, dtype=np.float64) for some in _in_blocks(num_users, dim)]
    mean: DoubleArray = np.sum(sums, axis=0) / num_users
    if not np.isfinite(mean).all():
        raise ScoreError(TOO_LARGE)
    return mean


def _solved(matrix: DoubleArray, right: DoubleArray) -> DoubleArray:
    """``matrix⁻¹ · right``"""
    try:
        found: DoubleArray = np.linalg.solve(matrix, right).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        raise ScoreError(TOO_LARGE) from None
    return found


def _in_blocks(num_users: int, dim: int) -> Iterator[Int32Array]:
    everyone = np.arange(num_users, dtype=np.int32)
    return (everyone[block] for block in blocks(num_users, 8 * dim))


def _covariance(vectors: FloatArray, centre: DoubleArray, weights: DoubleArray) -> DoubleArray:
    """``Σ w_n (v_n − c)(v_n − c)ᵀ``"""
    apart = vectors - centre
    return (apart * weights[:, None]).T @ apart
