"""Validation of several rankings of the same users in one pass, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cerp.cores import shared_out
from cerp.data.ids import Int32Array
from cerp.data.splits import Part, Splits
from cerp.evaluation.cold_start import items_without_rows
from cerp.evaluation.evaluate import entries_of, sample_users
from cerp.evaluation.metrics import RankedLists, cutoff_of, user_metrics
from cerp.evaluation.ranking import exclude, top_k

Float32Array = npt.NDArray[np.float32]
FloatArray = npt.NDArray[np.float64]
Rankings = Callable[[Int32Array], Iterator[Float32Array]]
"""For some users, their scores by one ranking after the other, (len(users), num_items) each."""
Lists = Callable[[Int32Array], Iterator[Int32Array]]
"""For some users, their best items by one ranking after the other, (len(users), k) each."""

CHUNK_BYTES = 8 * 2**20
"""Of scores that are ranked together: they stay in cache."""


def user_values(
    rankings: Rankings,
    count: int,
    splits: Splits,
    users: Int32Array,
    metric: str = "ndcg@10",
    *,
    on: Part = "valid",
) -> FloatArray:
    """A metric of each user, for each of several rankings: (count, len(users)).

    The figures are those of `cerp.evaluation.evaluate.evaluate`; what the rankings have in
    common is computed once.

    Parameters
    ----------
    rankings
        Given a chunk of users, yields ``count`` matrices of scores, which are written to.
    count
        How many rankings there are.
    splits, users, on
        Whom to judge on which part; every user must have truth there.
    metric
        A key of `Metrics.mean`, such as ``ndcg@10``.

    """
    k, seen = cutoff_of(metric), splits.seen_before(on)
    hidden = items_without_rows(splits.train)

    def lists(chunk: Int32Array) -> Iterator[Int32Array]:
        places = entries_of(seen, chunk)
        for scores in rankings(chunk):
            yield top_k(exclude(scores, *places, hidden), k)[0]

    return list_values(lists, count, splits, users, metric, on=on)


def list_values(
    lists: Lists,
    count: int,
    splits: Splits,
    users: Int32Array,
    metric: str = "ndcg@10",
    *,
    on: Part = "valid",
) -> FloatArray:
    """As `user_values`, from lists of the best items that are not seen, -1 for none."""
    k, truth = cutoff_of(metric), splits.part(on)
    name = metric.partition("@")[0]
    keys = truth.user.astype(np.int64) * truth.num_items + truth.item
    sizes = np.diff(truth.user_offsets)

    def judged(chunk: Int32Array) -> FloatArray:
        values = np.empty((count, len(chunk)))
        for place, items in enumerate(lists(chunk)):
            wanted = chunk.astype(np.int64)[:, None] * truth.num_items + items
            found = keys.take(np.searchsorted(keys, wanted), mode="clip") == wanted
            ranked = RankedLists(found & (items >= 0), sizes[chunk])
            values[place] = user_metrics(ranked, [k], [name])[metric]
        return values

    rows = max(1, CHUNK_BYTES // (4 * splits.num_items))
    chunks = [users[start : start + rows] for start in range(0, len(users), rows)]
    return np.concatenate(shared_out(judged, chunks), axis=1)


def mean_metrics(
    rankings: Rankings, count: int, splits: Splits, users: Int32Array, metric: str = "ndcg@10"
) -> list[float]:
    """The mean of `user_values` on validation, for each of several rankings."""
    values = user_values(rankings, count, splits, users, metric)
    return [float(value) for value in values.mean(axis=1)]


def is_clearly_better(first: FloatArray, second: FloatArray) -> bool:
    """Whether one ranking is above another by more than a standard error.

    The error is that of the mean of the users' differences.
    """
    difference = first - second
    if len(difference) < 2:
        return False
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    return bool(difference.mean() > error)


def judged_users(splits: Splits, count: int | None, seed: int, on: Part = "valid") -> Int32Array:
    """A seeded sample of the users who have truth; None: all of them."""
    return sample_users(splits, on, splits.num_users if count is None else count, seed)


def best_place(scores: Sequence[float]) -> int:
    """Where the highest score is; of equal ones the first."""
    return int(np.argmax(scores))
