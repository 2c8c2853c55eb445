from __future__ import annotations

import numpy as np
import pytest

from cerp.data.ids import Ids, Int32Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.evaluate import evaluate
from cerp.evaluation.metrics import METRICS, FloatArray, RankedLists, cutoff_of, metric_names
from cerp.evaluation.popularity import popularity_groups

LISTS = RankedLists(np.array([[False, True, True], [False, False, False]]), np.array([4, 1]))
"""Two hits at the ranks 2 and 3 of four held-out items, and a user without a hit."""


@pytest.mark.parametrize(
    ("metric", "k", "expected"),
    [
        ("ndcg", 2, (1 / np.log2(3)) / (1 + 1 / np.log2(3))),
        ("recall", 3, 2 / 4),
        ("recall", 9, 2 / 4),
        ("precision", 3, 2 / 3),
        ("precision", 9, 2 / 9),
        ("hit_rate", 1, 0.0),
        ("hit_rate", 2, 1.0),
        ("mrr", 1, 0.0),
        ("mrr", 3, 1 / 2),
        ("map", 3, (1 / 2 + 2 / 3) / 3),
    ],
)
def test_a_metric_by_hand(metric: str, k: int, expected: float):
    assert METRICS[metric](LISTS, k).tolist() == pytest.approx([expected, 0.0])


@pytest.mark.parametrize(("metric", "k"), [("ndcg@10", 10), ("hit_rate@1", 1), ("map@250", 250)])
def test_a_metric_names_its_cut_off(metric: str, k: int):
    assert cutoff_of(metric) == k


@pytest.mark.parametrize(
    "metric", ["ndcg", "ndcg@", "ndcg@0", "ndcg@x", "ndcg@1.5", "coverage@10", "NDCG@10", ""]
)
def test_what_is_no_metric_is_refused_with_all_that_are(metric: str):
    with pytest.raises(ConfigError, match="ndcg, recall, precision, hit_rate, mrr, map, each with"):
        cutoff_of(metric)


def of_one_user(train: list[int], test: list[int], num_items: int) -> Splits:
    ids = {"users": Ids.range(1), "items": Ids.range(num_items)}

    def part(items: list[int]) -> Interactions:
        return Interactions.from_codes([0] * len(items), items, **ids)

    return Splits(part(train), part([]), part(test))


class InOrder:
    """Items from the first to the last."""

    def __init__(self, num_items: int) -> None:
        self.scores = -np.arange(num_items, dtype=np.float32)

    def score_all(self, users: Int32Array) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.tile(self.scores, (len(users), 1))


def test_a_metric_of_others_is_one_function(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(METRICS, "_parts", dict(METRICS._parts))

    @METRICS.register("last_hit")
    def last_hit(lists: RankedLists, k: int) -> FloatArray:
        """The rank of the last hit, 0 without any."""
        ranks: FloatArray = (lists.hits[:, :k] * lists.ranks[:k]).max(axis=1).astype(float)
        return ranks

    assert metric_names()[-1] == "last_hit"
    assert cutoff_of("last_hit@3") == 3
    # Items 1, 2, 3, 4 are recommended, and 2 and 4 are hits.
    metrics = evaluate(InOrder(5), of_one_user([0], [2, 4], 5), ks=(3, 4), unseen_items=True)
    assert (metrics.mean["last_hit@3"], metrics.mean["last_hit@4"]) == (2, 4)
    assert list(metrics.mean)[:2] == ["ndcg@3", "recall@3"]


def test_recall_by_group_counts_the_truth_of_a_group_alone():
    splits = of_one_user([0], [1, 3, 4], 6)
    groups = np.array([0, 0, 1, 1, 1, 2])
    # Items 1, 2, 3 are recommended: of group 0 item 1, of group 1 item 3 but not item 4.
    metrics = evaluate(InOrder(6), splits, ks=(1, 3), groups=groups, unseen_items=True)
    assert metrics.recall_by_group == {"recall@1": [1, 0, None], "recall@3": [1, 0.5, None]}
    assert evaluate(InOrder(6), splits, ks=(3,)).recall_by_group == {}


def test_groups_that_are_not_of_all_items_are_refused():
    with pytest.raises(ConfigError, match="there are 6 items and groups of 2"):
        evaluate(InOrder(6), of_one_user([0], [1], 6), groups=np.array([0, 1]))


def test_popularity_groups_start_with_the_most_popular_and_break_ties_in_native_order():
    pairs = [(user, item) for item, count in enumerate([1, 3, 2, 1]) for user in range(count)]
    train = Interactions.from_codes(
        *zip(*pairs, strict=True), users=Ids.range(3), items=Ids.range(4)
    )
    assert popularity_groups(train, 2).tolist() == [1, 0, 0, 1]
    assert popularity_groups(train, 4).tolist() == [2, 0, 1, 3]
