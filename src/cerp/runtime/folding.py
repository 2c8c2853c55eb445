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
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cerp.artifact.model import FloatArray, Tastes
from cerp.data.ids import Int32Array
from cerp.errors import ScoreError
from cerp.runtime.scoring import blocks

DoubleArray = npt.NDArray[np.float64]

MOST_EVIDENCE = 32
"""Items count as at most so many. They are not independent draws from the model's own
softmax, and of many the step from the mean user goes too far."""


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
        rows = [np.arange(num_users, dtype=np.int32)[block] for block in blocks(num_users, 8 * dim)]
        mean = np.sum([users(some).sum(axis=0, dtype=np.float64) for some in rows], axis=0)
        mean /= num_users
        covariance = np.zeros((dim, dim))
        for some in rows:
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
        try:
            step = np.linalg.solve(
                np.eye(len(self.mean)) + evidence * self.spread,
                evidence * self.user_covariance @ surprise,
            )
        except np.linalg.LinAlgError:
            raise ScoreError(
                "the vectors of this model are too large to make one for someone new; it has "
                "diverged in training"
            ) from None
        vector: DoubleArray = self.mean + step
        return vector


def _covariance(vectors: FloatArray, centre: DoubleArray, weights: DoubleArray) -> DoubleArray:
    """``Σ w_n (v_n − c)(v_n − c)ᵀ``"""
    apart = vectors - centre
    return (apart * weights[:, None]).T @ apart
