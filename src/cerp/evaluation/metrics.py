"""What is measured of a ranking, user by user.

A metric is a function of `RankedLists` and a cut-off k, and one decorator here
or an entry point in the group ``cerp.metrics``; it is then computed, and can select,
under its name and the cut-off, such as ``ndcg@10``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array
from cerp.data.splits import Part
from cerp.errors import ConfigError
from cerp.registry import Registry

FloatArray = npt.NDArray[np.float64]

CONVENTIONS = """\
Full ranking over all items, no sampled candidates. Items that the user has in training
(at test time: in training or validation) are not recommended. Ids are the union over train,
valid and test: an item unseen in training stays in the catalogue and in the truth, but is
not recommended unless asked for. Users without training rows get the items with the most
training interactions, whatever the model. Users without truth are left out; where users
times items are more than 20 billion, a fixed sample of users is judged, and its size is
said. Equal scores rank in native item order. Means are over users.
Recall@k = hits / |truth|; precision@k = hits / k; hit rate@k = any hit; MRR@k = 1 / rank of
the first hit, 0 beyond k; NDCG@k has binary gains and its ideal is cut at min(k, |truth|);
MAP@k = sum of the precision at each hit / min(k, |truth|); coverage@k = share of the
catalogue that is in anybody's list. Head: the 20% of items with the most training
interactions, ties in native order; tail: the rest; in both only the truth is restricted.
"""
"""What the numbers mean; to be printed beside them."""
JUDGING = 2
"""The number of these conventions, to be kept with figures: those of another number are not to be
compared with them. In 1, items that training never saw could be recommended, and users without
training rows got the model's list."""


@dataclass(frozen=True, eq=False)
class RankedLists:
    """Where the hits are in the lists of some users, all of whom have truth."""

    hits: npt.NDArray[np.bool_]
    """``hits[u, r]``: whether the item at rank r+1 is in the truth. The lists may be shorter than
    a cut-off when the catalogue is."""
    truth_sizes: Int64Array
    """|truth| of each user, never zero."""

    @cached_property
    def ranks(self) -> Int64Array:
        """1, 2, ..., as far as the lists go."""
        return np.arange(1, self.hits.shape[1] + 1)

    @cached_property
    def hits_so_far(self) -> Int64Array:
        """The number of hits up to each rank."""
        return np.cumsum(self.hits, axis=1)

    @cached_property
    def first_hit(self) -> FloatArray:
        """The rank of each user's first hit, infinite where there is none."""
        return np.where(self.hits.any(axis=1), self.hits.argmax(axis=1) + 1.0, np.inf)

    @cached_property
    def gain_so_far(self) -> FloatArray:
        """``Σ 1 / log2(rank + 1)`` of the hits up to each rank."""
        return np.cumsum(self.hits / np.log2(self.ranks + 1), axis=1)

    @cached_property
    def precision_so_far(self) -> FloatArray:
        """The sum, over the hits up to each rank, of the precision there."""
        return np.cumsum(self.hits * (self.hits_so_far / self.ranks), axis=1)

    def last(self, k: int) -> int:
        """The column of rank k, or of the last rank there is."""
        return min(k, len(self.ranks)) - 1

    def reachable(self, k: int) -> Int64Array:
        """``min(k, |truth|)``: the most hits there can be."""
        return np.minimum(k, self.truth_sizes)


UserMetric = Callable[[RankedLists, int], FloatArray]

METRICS: Registry[UserMetric] = Registry("metric", "cerp.metrics")
"""A value for each user, by the metric's name without the cut-off."""


@METRICS.register("ndcg")
def ndcg(lists: RankedLists, k: int) -> FloatArray:
    """Gain of the hits over that of an ideal list, cut at ``min(k, |truth|)``."""
    ideal = np.cumsum(1 / np.log2(np.arange(1, k + 1) + 1))
    return lists.gain_so_far[:, lists.last(k)] / ideal[lists.reachable(k) - 1]


@METRICS.register("recall")
def recall(lists: RankedLists, k: int) -> FloatArray:
    """``hits / |truth|``"""
    return lists.hits_so_far[:, lists.last(k)] / lists.truth_sizes


@METRICS.register("precision")
def precision(lists: RankedLists, k: int) -> FloatArray:
    """``hits / k``"""
    return lists.hits_so_far[:, lists.last(k)] / k


@METRICS.register("hit_rate")
def hit_rate(lists: RankedLists, k: int) -> FloatArray:
    """1 where there is any hit."""
    return (lists.first_hit <= k).astype(np.float64)


@METRICS.register("mrr")
def mrr(lists: RankedLists, k: int) -> FloatArray:
    """``1 / rank`` of the first hit, 0 beyond k."""
    return np.where(lists.first_hit <= k, 1 / lists.first_hit, 0.0)


@METRICS.register("map")
def mean_average_precision(lists: RankedLists, k: int) -> FloatArray:
    """Sum of the precision at each hit over ``min(k, |truth|)``."""
    return lists.precision_so_far[:, lists.last(k)] / lists.reachable(k)


SHOWN_FIRST = ("ndcg", "recall", "precision", "hit_rate", "mrr", "map")
"""The order of metrics in results; others follow by name."""


def metric_names() -> list[str]:
    """All metrics, without cut-offs, in the order of results."""
    return [*SHOWN_FIRST, *(name for name in METRICS.names() if name not in SHOWN_FIRST)]


def user_metrics(
    lists: RankedLists, ks: Sequence[int], names: Sequence[str]
) -> dict[str, FloatArray]:
    """Some metrics of every user at every cut-off."""
    return {f"{name}@{k}": METRICS[name](lists, k) for k in ks for name in names}


def cutoff_of(metric: str) -> int:
    """The k of a metric such as ``recall@20``, which is refused if it is none."""
    found = re.fullmatch(r"(.+)@([1-9]\d*)", metric, re.ASCII)
    if found is None or found[1] not in METRICS:
        raise ConfigError(
            f"unknown metric {metric!r}; choose one of {', '.join(metric_names())}, each with a "
            "cut-off, such as ndcg@10"
        )
    return int(found[2])


@dataclass(frozen=True, eq=False)
class Metrics:
    """How well a scorer ranks; see `CONVENTIONS`. Keys are like ``ndcg@10``.

    Attributes
    ----------
    on
        The part that was judged on.
    users
        Codes of the users judged, ascending.
    per_user
        Each metric for each of the users.
    coverage
        Share of the catalogue in anybody's list.
    head
        Number of users, and means, where only truth among popular items counts.
    tail
        Number of users, and means, where only truth among the other items counts.
    users_with_truth
        How many users could have been judged; more than ``users`` where those are a sample.
    recall_by_group
        Where groups of items were asked for: mean recall where only truth of one group counts,
        a value for each group; None for a group that is in nobody's truth.
    cold_users
        How many of the users had no training rows.
    unseen_items
        How many items of the catalogue training never saw.

    """

    on: Part
    users: Int32Array
    per_user: dict[str, FloatArray]
    coverage: dict[str, float]
    head: dict[str, float]
    tail: dict[str, float]
    users_with_truth: int = 0
    recall_by_group: dict[str, list[float | None]] = field(default_factory=dict)
    cold_users: int = 0
    unseen_items: int = 0

    @property
    def is_sample(self) -> bool:
        """Whether only some of the users with truth were judged."""
        return len(self.users) < self.users_with_truth

    def half_width(self, metric: str) -> float:
        """Of the 95% interval of a mean over a sample of users.

        ``1.96 · s / √n · √(1 - n/N)`` with s the deviation of n users out of N; 0 where all were
        judged.
        """
        values, count = self.per_user[metric], len(self.users)
        if not self.is_sample or count < 2:
            return 0.0
        left_out = 1 - count / self.users_with_truth
        return float(1.96 * values.std(ddof=1) * np.sqrt(left_out / count))

    @cached_property
    def mean(self) -> dict[str, float]:
        """Each metric, averaged over the users."""
        return {name: float(values.mean()) for name, values in self.per_user.items()}

    def refuse_unknown(self, metric: str) -> None:
        """Refuse a metric that was not computed."""
        if metric not in self.per_user:
            known = ", ".join(self.per_user)
            raise ConfigError(f"unknown metric {metric!r}; these were computed: {known}")

    def summary(self) -> dict[str, Any]:
        """Everything but the per-user values and the groups, flat and ready for JSON.

        Of a sample of users also how many there are, and the ``half_width`` of each metric.
        """
        of_sample = {
            "users_with_truth": self.users_with_truth,
            "half_width": {name: self.half_width(name) for name in self.per_user},
        }
        return {
            "on": self.on,
            "users": len(self.users),
            **(of_sample if self.is_sample else {}),
            "cold_users": self.cold_users,
            "unseen_items": self.unseen_items,
            **self.mean,
            **self.coverage,
            "head": self.head,
            "tail": self.tail,
        }
