"""Vectors of a scaled SVD as a teacher: those of items, and of users the sums of what they have.

Exponents and rank are searched on validation, as for the method. Users' vectors are made as long
as items' in the mean, which changes no ranking and lets both share codebooks, and the scores are
scaled to logits of preferences (`cerp.methods.als.teacher`).
"""

from __future__ import annotations

import numpy as np

from cerp.data.ids import Float32Array
from cerp.data.splits import Splits
from cerp.errors import DataError
from cerp.graph.history_sums import HistorySums, HistoryVectors
from cerp.methods.als.teacher import teacher_vectors
from cerp.methods.svd.search import RANKS, ScalingSearch
from cerp.progress import progress


def svd_teacher(
    splits: Splits, dim: int, *, metric: str, seed: int, quiet: bool = False
) -> Float32Array:
    """The vectors of users, then of items, with zeros up to ``dim`` numbers each."""
    largest = min(splits.num_users - 1, splits.num_items - 1, dim)
    if largest < RANKS[0]:
        raise DataError(
            f"a singular value decomposition of rank {RANKS[0]} needs three users and three items, "
            f"and vectors of {RANKS[0]} numbers; choose another teacher, or teacher=none"
        )
    with progress("teacher", quiet=quiet) as bar:
        search = ScalingSearch(splits, metric, seed, largest, bar)
        scaling = search.best()
    items = search.svd.vectors(scaling)
    sums = HistorySums(scaling.sum_exponent, search.popularity)
    users = HistoryVectors(items, sums, splits.train).users()
    length = np.sqrt(np.square(users).mean() / np.square(items).mean())
    together = np.concatenate([users / np.sqrt(length), items * np.sqrt(length)])
    return teacher_vectors(together.astype(np.float32), splits, dim, seed)
