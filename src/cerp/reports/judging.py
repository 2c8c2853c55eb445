"""Model files judged on the test part: per user, and by the popularity of items.

The figures of a run folder are means. Intervals and recall by popularity need
the lists themselves, which are made here from the files, by the rules of
`cerp.evaluation.evaluate.CONVENTIONS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int64Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import DataError
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.evaluate import DEFAULT_MEMORY, Metrics, Scorer, entries_of, user_metrics
from cerp.evaluation.ranking import exclude, top_k
from cerp.reports.finished_runs import FinishedRun, Model
from cerp.runtime import Runtime

GROUPS = 10


@dataclass(frozen=True, eq=False)
class Judged:
    """How a scorer ranks for the users of the test part."""

    metrics: Metrics
    """NDCG@k and the like of every user."""
    recall_by_popularity: list[float | None]
    """Recall@k where only truth of one group counts, the most popular items first; None for a
    group that is in nobody's truth."""


@dataclass(frozen=True, eq=False)
class Judgements:
    """What the data adds to a report."""

    splits: Splits
    popularity: Judged
    models: dict[Model, Judged]
    """Of every model with a file, unless it was refitted on the test part."""
    k: int
    """Length of the lists."""


def cut_of(metric: str) -> int:
    """10 of ``ndcg@10``."""
    return int(metric.partition("@")[2])


def judge_models(runs: Sequence[FinishedRun], splits: Splits, *, k: int) -> Judgements:
    """Judge the file of every model, on data that must be what the runs were trained on."""
    trained_on = runs[0].origin.fingerprint
    if splits.fingerprint != trained_on:
        raise DataError(
            f"the data is not what the runs were trained on: its fingerprint is "
            f"{splits.fingerprint[:12]}, theirs {trained_on[:12]}; name the same data, split alike"
        )
    if not len(splits.test):
        raise DataError("the data has no test part to judge on; make the report without it")
    models = {
        model: judge(Runtime(model.file.model), splits, k)
        for run in runs
        for model in run.models
        if model.file is not None and model.test is not None
    }
    return Judgements(splits, judge(Popularity(splits.train), splits, k), models, k)


def judge(scorer: Scorer, splits: Splits, k: int = 10) -> Judged:
    """Rank the catalogue for every user of the test part."""
    truth, seen = splits.test, splits.seen_before("test")
    users = np.unique(truth.user)
    group = popularity_groups(splits.train)
    truth_keys = truth.user.astype(np.int64) * truth.num_items + truth.item
    sizes = _counts(truth.user, group[truth.item], truth.num_users)[users]
    hits = np.zeros_like(sizes)
    per_user = []
    rows = max(1, DEFAULT_MEMORY // (4 * truth.num_items))
    for start in range(0, len(users), rows):
        chunk = users[start : start + rows]
        scores = exclude(scorer.score_all(chunk), *entries_of(seen, chunk))
        items, _ = top_k(scores, k)
        keys = chunk.astype(np.int64)[:, None] * truth.num_items + items
        is_hit = (items >= 0) & np.isin(keys, truth_keys)
        row, rank = np.nonzero(is_hit)
        hits[start : start + rows] = _counts(row, group[items[row, rank]], len(chunk))
        per_user.append(user_metrics(is_hit, sizes[start : start + rows].sum(axis=1), [k]))
    joined = {name: np.concatenate([part[name] for part in per_user]) for name in per_user[0]}
    return Judged(Metrics("test", users, joined, {}, {}, {}), _mean_recalls(hits, sizes))


def popularity_groups(train: Interactions) -> Int64Array:
    """The tenth of the catalogue that each item is in: 0 for those with the most interactions.

    Ties in native order; the tenths differ in size by at most one item.
    """
    ranks = np.empty(train.num_items, dtype=np.int64)
    ranks[np.argsort(-train.item_counts, kind="stable")] = np.arange(train.num_items)
    return ranks * GROUPS // train.num_items


def _counts(rows: npt.NDArray[np.integer], groups: Int64Array, num_rows: int) -> Int64Array:
    """How often each group occurs in each row."""
    places = rows.astype(np.int64) * GROUPS + groups
    return np.bincount(places, minlength=num_rows * GROUPS).reshape(num_rows, GROUPS)


def _mean_recalls(hits: Int64Array, sizes: Int64Array) -> list[float | None]:
    """Mean of hits / truth over the users with truth in a group."""
    found: list[float | None] = []
    for own_hits, own_sizes in zip(hits.T, sizes.T, strict=True):
        judged = own_sizes > 0
        recalls = own_hits[judged] / own_sizes[judged]
        found.append(float(recalls.mean()) if judged.any() else None)
    return found
