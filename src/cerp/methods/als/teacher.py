"""Vectors of ALS as a teacher: scaled so that differences of scores are logits of preferences.

ALS fits 0 and 1, so that its scores hardly differ by more than 1, and a student would be told that
every pair is nearly a tie. With the factor

    s = argmin_s Σ log(1 + exp(−s·(⟨x_u, y_i⟩ − ⟨x_u, y_j⟩)))

over what users took in validation (i) and items drawn at random (j), ``√s`` times the vectors say
how likely a user prefers i to j, as those of a model trained by pairs do.
"""

from __future__ import annotations

import numpy as np

from cerp.data.ids import Float32Array
from cerp.data.splits import Splits

SCALES = 2.0 ** np.arange(-2, 10.5, 0.5)
PAIRS = 100_000
"""At most so many pairs say what the factor is."""


def teacher_vectors(vectors: Float32Array, splits: Splits, dim: int, seed: int) -> Float32Array:
    """The vectors with their scores as logits, and zeros up to ``dim`` numbers each."""
    scaled = vectors * np.float32(np.sqrt(logit_scale(vectors, splits, seed)))
    return np.pad(scaled, ((0, 0), (0, dim - vectors.shape[1])))


def logit_scale(vectors: Float32Array, splits: Splits, seed: int) -> float:
    """S of the module's docstring, of a fixed grid."""
    rng, valid = np.random.default_rng(seed), splits.valid
    chosen = rng.permutation(len(valid))[:PAIRS]
    users, items = vectors[: splits.num_users], vectors[splits.num_users :]
    user, taken = valid.user[chosen], valid.item[chosen]
    drawn = rng.integers(splits.num_items, size=len(chosen))
    difference = np.einsum("pd,pd->p", users[user], items[taken] - items[drawn])
    # An item drawn by chance is seldom one that the user took; that one says nothing.
    difference = difference[taken != drawn].astype(np.float64)
    losses = [np.logaddexp(0, -scale * difference).mean() for scale in SCALES]
    return float(SCALES[int(np.argmin(losses))])
