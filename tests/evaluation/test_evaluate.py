from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, DataError, ScoreError
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.evaluate import evaluate, sample_users, users_to_judge
from cerp.evaluation.metrics import Metrics

KS = (1, 3, 20)


class Fixed:
    """Scores from a matrix."""

    def __init__(self, scores: npt.ArrayLike) -> None:
        self.scores = np.array(scores, dtype=np.float32)

    def score_all(self, users: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        return self.scores[users]


def labelled(labels: npt.ArrayLike) -> Splits:
    """A split from a matrix (users, items) of 0 nothing, 1 train, 2 valid, 3 test."""
    matrix = np.asarray(labels)
    users, items = Ids.range(matrix.shape[0]), Ids.range(matrix.shape[1])
    parts = [
        Interactions.from_codes(*np.nonzero(matrix == label), users=users, items=items)
        for label in (1, 2, 3)
    ]
    return Splits(*parts)


@st.composite
def cases(draw: st.DrawFn) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Labels and scores, with many ties and some refusals of the scorer."""
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 9)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = rng.integers(4, size=shape)
    assume((labels == 1).any() and (labels == 3).any())
    scores = rng.integers(draw(st.sampled_from([1, 3, 100])), size=shape).astype(np.float32)
    scores[rng.random(shape) < draw(st.sampled_from([0, 0.3]))] = -np.inf
    return labels, scores


def lists_by_hand(labels: list[list[int]], scores: list[list[float]]) -> list[list[int]]:
    """The recommendable items of each user, best first: not those that nobody has in training."""
    lists = []
    known = {i for row in labels for i in range(len(row)) if row[i] == 1}
    for row, score in zip(labels, scores, strict=True):
        allowed = [(-score[i], i) for i in known if row[i] not in (1, 2) and score[i] > -math.inf]
        lists.append([item for _, item in sorted(allowed)])
    return lists


def metrics_by_hand(ranked: list[int], truth: set[int], k: int) -> dict[str, float]:
    """The definitions, one user, in loops."""
    gain = precision_sum = reciprocal = 0.0
    hits = 0
    for rank, item in enumerate(ranked[:k], start=1):
        if item in truth:
            hits += 1
            gain += 1 / math.log2(rank + 1)
            precision_sum += hits / rank
            reciprocal = reciprocal or 1 / rank
    reachable = min(k, len(truth))
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, reachable + 1))
    return {
        f"ndcg@{k}": gain / ideal,
        f"recall@{k}": hits / len(truth),
        f"precision@{k}": hits / k,
        f"hit_rate@{k}": float(hits > 0),
        f"mrr@{k}": reciprocal,
        f"map@{k}": precision_sum / reachable,
    }


def means_by_hand(
    labels: list[list[int]], scores: list[list[float]], members: set[int]
) -> dict[str, float]:
    """Means over users with truth among the members."""
    truths = [{i for i in members if row[i] == 3} for row in labels]
    judged = [
        {name: v for k in KS for name, v in metrics_by_hand(ranked, truth, k).items()}
        for ranked, truth in zip(lists_by_hand(labels, scores), truths, strict=True)
        if truth
    ]
    names = judged[0] if judged else {}
    return {"users": len(judged)} | {
        name: sum(user[name] for user in judged) / len(judged) for name in names
    }


def head_by_hand(labels: list[list[int]]) -> set[int]:
    counts = [sum(label == 1 for label in column) for column in zip(*labels, strict=True)]
    ranked = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
    return set(ranked[: math.ceil(len(counts) / 5)])


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(cases())
def test_every_figure_equals_the_definitions_in_loops(case: tuple[Any, Any]) -> None:
    labels, scores = case
    summary = evaluate(Fixed(scores), labelled(labels), ks=KS).summary()
    rows, values, items = labels.tolist(), scores.tolist(), set(range(labels.shape[1]))
    head = head_by_hand(rows)
    expected = means_by_hand(rows, values, items)
    assert {name: summary[name] for name in expected} == pytest.approx(expected, abs=1e-9)
    assert summary["head"] == pytest.approx(means_by_hand(rows, values, head), abs=1e-9)
    assert summary["tail"] == pytest.approx(means_by_hand(rows, values, items - head), abs=1e-9)


@settings(deadline=None)
@given(cases())
def test_coverage_is_the_share_of_items_in_anybodys_list(case: tuple[Any, Any]) -> None:
    labels, scores = case
    coverage = evaluate(Fixed(scores), labelled(labels), ks=KS).coverage
    lists = lists_by_hand(labels.tolist(), scores.tolist())
    judged = [ranked for ranked, row in zip(lists, labels, strict=True) if 3 in row]
    for k in KS:
        listed = {item for ranked in judged for item in ranked[:k]}
        assert coverage[f"coverage@{k}"] == pytest.approx(len(listed) / labels.shape[1])


def same(first: Metrics, second: Metrics) -> bool:
    return first.summary() == second.summary() and all(
        np.array_equal(first.per_user[name], second.per_user[name]) for name in first.per_user
    )


@settings(deadline=None)
@given(cases(), st.integers(1, 200))
def test_neither_chunks_nor_the_order_of_users_nor_a_constant_matter(
    case: tuple[Any, Any], memory: int
) -> None:
    labels, scores = case
    splits = labelled(labels)
    plain = evaluate(Fixed(scores), splits, ks=KS)
    backwards = np.arange(len(labels), dtype=np.int32)[::-1]
    assert same(plain, evaluate(Fixed(scores), splits, ks=KS, memory=memory))
    assert same(plain, evaluate(Fixed(scores), splits, ks=KS, users=backwards))
    assert same(plain, evaluate(Fixed(scores + 8), splits, ks=KS))


@settings(deadline=None)
@given(cases())
def test_all_values_lie_between_zero_and_one(case: tuple[Any, Any]) -> None:
    labels, scores = case
    metrics = evaluate(Fixed(scores), labelled(labels), ks=KS)
    values = np.concatenate([*metrics.per_user.values(), list(metrics.coverage.values())])
    assert values.min() >= 0
    assert values.max() <= 1


@settings(deadline=None)
@given(cases())
def test_the_truth_itself_is_a_perfect_scorer(case: tuple[Any, Any]) -> None:
    labels, _ = case
    metrics = evaluate(Fixed(labels == 3), labelled(labels), ks=(3,), unseen_items=True)
    sizes = (labels == 3).sum(axis=1)[metrics.users]
    assert metrics.per_user["ndcg@3"] == pytest.approx(1)
    assert metrics.per_user["map@3"] == pytest.approx(1)
    assert metrics.per_user["recall@3"] == pytest.approx(np.minimum(1, 3 / sizes))


def test_a_case_worked_out_on_paper() -> None:
    # Item 0 is in training; the list is 1 (hit), 2, 3 (hit), 4 (beyond k); item 5 is the third hit.
    splits = labelled([[1, 3, 0, 3, 0, 3], [1, 1, 1, 1, 1, 1]])
    mean = evaluate(Fixed([[9, 5, 4, 3, 2, 1]]), splits, ks=(3,)).mean
    assert mean == pytest.approx(
        {
            "ndcg@3": (1 + 1 / 2) / (1 + 1 / math.log2(3) + 1 / 2),
            "recall@3": 2 / 3,
            "precision@3": 2 / 3,
            "hit_rate@3": 1,
            "mrr@3": 1,
            "map@3": (1 / 1 + 2 / 3) / 3,
        }
    )


def test_validation_items_are_masked_at_test_time_only() -> None:
    splits = labelled([[1, 2, 3], [1, 1, 1]])
    scorer = Fixed([[3, 2, 1]])
    assert evaluate(scorer, splits, on="test", ks=(1,)).mean["recall@1"] == 1
    assert evaluate(scorer, splits, on="valid", ks=(1,)).mean["recall@1"] == 1


def test_an_item_unseen_in_training_stays_in_the_truth() -> None:
    # Item 1 is known from the other user; item 2, which scores higher, from nobody.
    splits = labelled([[1, 3, 3], [1, 1, 0]])
    scorer = Fixed([[0, 1, 2], [0, 0, 0]])
    metrics = evaluate(scorer, splits, ks=(2,))
    assert metrics.mean["recall@2"] == 1 / 2
    assert metrics.unseen_items == metrics.summary()["unseen_items"] == 1


def test_an_item_unseen_in_training_is_recommended_when_asked_for() -> None:
    splits = labelled([[1, 3, 3], [1, 1, 0]])
    scorer = Fixed([[0, 1, 2], [0, 0, 0]])
    assert evaluate(scorer, splits, ks=(1,)).mean["mrr@1"] == 1  # item 1, known and a hit
    assert evaluate(scorer, splits, ks=(2,), unseen_items=True).mean["recall@2"] == 1


def test_judged_users_without_training_rows_are_counted() -> None:
    # User 0 has training rows, user 1 only truth, user 2 nothing to be judged on.
    metrics = evaluate(Fixed(np.zeros((3, 2))), labelled([[1, 3], [3, 0], [0, 0]]))
    assert metrics.cold_users == metrics.summary()["cold_users"] == 1


def test_only_the_users_asked_for_are_judged() -> None:
    splits = labelled([[1, 3], [3, 1], [1, 0]])
    metrics = evaluate(Fixed(np.zeros((3, 2))), splits, users=np.array([2, 1], dtype=np.int32))
    assert metrics.users.tolist() == [1]


def test_scores_of_torch_give_the_same_figures() -> None:
    torch = pytest.importorskip("torch")
    splits = labelled(np.random.default_rng(0).integers(4, size=(20, 300)))
    fixed = Fixed(np.random.default_rng(1).integers(9, size=(20, 300)))

    class OfTorch:
        def score_all(self, users: npt.NDArray[np.int32]) -> Any:
            return torch.from_numpy(fixed.score_all(users))

    assert same(evaluate(OfTorch(), splits), evaluate(fixed, splits))


def test_scores_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(ScoreError, match=r"\(1, 1\) for 1 users; expected \(1, 2\)"):
        evaluate(Fixed([[0]]), labelled([[1, 3]]))


def test_training_cannot_be_judged_on() -> None:
    with pytest.raises(ConfigError, match="'train'"):
        evaluate(Fixed([[0, 0]]), labelled([[1, 3]]), on="train")


def test_a_part_without_interactions_cannot_be_judged_on() -> None:
    with pytest.raises(DataError, match="valid part"):
        evaluate(Fixed([[0, 0]]), labelled([[1, 3]]), on="valid")


def test_users_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"0\.\.0"):
        evaluate(Fixed([[0, 0]]), labelled([[1, 3]]), users=np.array([1], dtype=np.int32))


def test_cut_offs_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="cut-offs"):
        evaluate(Fixed([[0, 0]]), labelled([[1, 3]]), ks=(0,))


def test_a_sample_of_users_has_truth_and_follows_the_seed() -> None:
    splits = labelled([[1, 3]] * 50 + [[1, 0]] * 50)
    drawn = sample_users(splits, "test", 20, seed=1)
    assert len(set(drawn.tolist())) == 20
    assert drawn.max() < 50
    assert drawn.tolist() == sample_users(splits, "test", 20, seed=1).tolist()
    assert drawn.tolist() != sample_users(splits, "test", 20, seed=2).tolist()


def test_a_sample_beyond_the_users_is_all_of_them() -> None:
    assert sample_users(labelled([[1, 3], [1, 0], [1, 3]]), "test", 9, seed=0).tolist() == [0, 2]


def test_where_users_times_items_are_too_many_the_same_sample_is_judged_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    splits = synthetic(60, 40, 1200).split(seed=0)
    monkeypatch.setattr("cerp.evaluation.evaluate.LEAST_SAMPLE", 10)
    monkeypatch.setattr("cerp.evaluation.evaluate.MOST_SCORES", 40 * 25)
    metrics = evaluate(Popularity(splits.train), splits)
    assert metrics.users.tolist() == sample_users(splits, "test", 25, seed=0).tolist()
    assert metrics.users_with_truth == len(np.unique(splits.test.user))
    assert metrics.is_sample
    assert len(users_to_judge(splits, "test", 7)) == 7


def test_the_interval_of_a_sample_worked_out_on_paper() -> None:
    per_user = {"ndcg@10": np.array([0.0, 0.5, 1.0, 0.5])}
    users = np.arange(4, dtype=np.int32)
    # The variance of 0, .5, 1, .5 is .5/3; a quarter of 16 users was judged.
    expected = 1.96 * math.sqrt(0.5 / 3 / 4 * (1 - 4 / 16))
    sample = Metrics("test", users, per_user, {}, {}, {}, users_with_truth=16)
    assert sample.half_width("ndcg@10") == pytest.approx(expected)
    assert sample.summary()["half_width"]["ndcg@10"] == sample.half_width("ndcg@10")
    everybody = Metrics("test", users, per_user, {}, {}, {}, users_with_truth=4)
    assert everybody.half_width("ndcg@10") == 0
    assert "half_width" not in everybody.summary()


def test_popularity_on_lastfm_equals_what_ranx_computes(
    shared_data: Callable[[str], Path],
) -> None:
    splits = Splits.load(shared_data("lastfm"))
    mean = evaluate(Popularity(splits.train), splits, ks=(10,)).mean
    assert mean["ndcg@10"] == pytest.approx(0.083501616637, abs=1e-6)


def test_judging_that_takes_long_says_how_far_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    splits = synthetic(40, 30, 300).split()
    scorer = Popularity(splits.train)
    evaluate(scorer, splits, label="judge popularity")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("cerp.evaluation.evaluate.LONG", 0)
    evaluate(scorer, splits)
    assert capsys.readouterr().err == ""
    evaluate(scorer, splits, label="judge popularity")
    assert capsys.readouterr().err == "judge popularity: 100%\n"
