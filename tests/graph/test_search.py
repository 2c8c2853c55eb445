from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.evaluate import evaluate
from cerp.evaluation.ranking import exclude, top_k
from cerp.graph import search
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter
from cerp.graph.judging import is_clearly_better, judged_users, mean_metrics
from cerp.graph.search import search_exponents
from small_graphs import splits_of


@pytest.fixture(scope="module")
def splits() -> Splits:
    return splits_of(0)


def planted(splits: Splits, chosen: Exponents) -> Splits:
    """Validation holds what a filter with these exponents recommends."""
    users = np.arange(splits.num_users, dtype=np.int32)
    scores = GraphFilter(Edges.of(splits.train), chosen).score_all(users)
    listed, _ = top_k(exclude(scores, splits.train.user, splits.train.item), 5)
    valid = Interactions.from_codes(
        np.repeat(users, 5), listed.reshape(-1), users=splits.train.users, items=splits.train.items
    )
    nothing = splits.test.subset(np.zeros(len(splits.test), dtype=bool))
    return Splits(splits.train, valid, nothing)


@pytest.mark.parametrize("chosen", [Exponents(1.0, 0.25, 0.125), Exponents(0.25, 0.875, 0.75)])
def test_the_search_finds_planted_exponents(chosen: Exponents):
    data = planted(splits_of(0, users=200, items=240, tastes=2), chosen)
    found = search_exponents(data, metric="ndcg@5", quiet=True)
    first = found.trials[0]
    assert first.exponents == search.START
    assert found.score > 0.94 > 0.92 > first.score
    assert abs(found.exponents.r - chosen.r) < 0.1


def test_the_score_is_that_of_the_judge(splits: Splits):
    found = search_exponents(splits, metric="recall@20", quiet=True)
    model = GraphFilter(Edges.of(splits.train), found.exponents)
    assert found.score == pytest.approx(evaluate(model, splits, on="valid").mean["recall@20"])


def test_trials_may_be_judged_on_a_sample_but_the_result_is_on_everybody(splits: Splits):
    found = search_exponents(splits, sample=30, quiet=True)
    model = GraphFilter(Edges.of(splits.train), found.exponents)
    assert {trial.users for trial in found.trials} == {30}
    assert found.score == pytest.approx(evaluate(model, splits, on="valid").mean["ndcg@10"])


def test_the_start_is_kept_where_nothing_is_clearly_better(splits: Splits):
    # Validation as the start itself recommends: nothing can be better.
    start = Exponents(0.5, 1.0, 0.25)
    found = search_exponents(planted(splits, start), metric="ndcg@5", start=start, quiet=True)
    assert found.exponents == start
    assert found.score == 1
    assert len(found.trials) > 10


def test_better_by_less_than_a_standard_error_is_not_clearly_better():
    # Differences 1, -1, 1, 1, ...: of 100 users 60 gain and 40 lose; mean .2, error .098.
    second = np.zeros(100)
    first = np.where(np.arange(100) < 60, 1.0, -1.0)
    assert is_clearly_better(first, second)
    assert not is_clearly_better(second, first)
    # 52 gain and 48 lose: mean .04, error .1.
    assert not is_clearly_better(np.where(np.arange(100) < 52, 1.0, -1.0), second)
    assert not is_clearly_better(second, second)


def test_both_ways_to_sum_give_the_same_trials(splits: Splits, monkeypatch: pytest.MonkeyPatch):
    by_items = search_exponents(splits, quiet=True)
    monkeypatch.setattr(search, "FEW_ITEMS", 0)
    by_paths = search_exponents(splits, quiet=True)
    for first, second in zip(by_items.trials, by_paths.trials, strict=True):
        assert first.exponents == second.exponents
        assert first.score == pytest.approx(second.score, abs=2e-3)


def test_users_whom_paths_lead_to_few_items_get_popular_ones_as_in_evaluation(
    monkeypatch: pytest.MonkeyPatch,
):
    splits = splits_of(2, users=30, items=60, tastes=10)
    monkeypatch.setattr(search, "FEW_ITEMS", 0)
    found = search_exponents(splits, quiet=True)
    model = GraphFilter(Edges.of(splits.train), found.exponents)
    strengths = model.strengths(np.arange(splits.num_users, dtype=np.int32))
    strengths[splits.train.user, splits.train.item] = 0
    few = (strengths > 0).sum(axis=1) < 10
    assert 0 < few.sum() < len(few)  # of some users, not of all
    judged = evaluate(model, splits, on="valid", ks=(10,)).mean["ndcg@10"]
    assert found.score == pytest.approx(judged, abs=1e-12)


def test_the_search_never_reads_the_test_part(splits: Splits):
    empty = splits.test.subset(np.zeros(len(splits.test), dtype=bool))
    blind = Splits(splits.train, splits.valid, empty)
    assert search_exponents(blind, quiet=True).exponents == (
        search_exponents(splits, quiet=True).exponents
    )


@pytest.mark.parametrize("metric", ["ndcg@10", "recall@5", "map@20", "hit_rate@1", "mrr@100"])
def test_means_are_those_of_the_judge(splits: Splits, metric: str):
    model = GraphFilter(Edges.of(splits.train), Exponents(0.5, 0.5, 0.5))
    users = judged_users(splits, None, 0)

    def rankings(chunk: npt.NDArray[np.int32]):
        yield model.score_all(chunk)
        yield -model.score_all(chunk)

    k = int(metric.partition("@")[2])
    found = mean_metrics(rankings, 2, splits, users, metric)
    assert found[0] == pytest.approx(
        evaluate(model, splits, on="valid", ks=(k,)).mean[metric], rel=1e-12
    )
    assert found[1] < found[0]


@pytest.mark.parametrize("metric", ["ndcg", "ndcg@0", "fame@10"])
def test_an_unknown_metric_is_refused(splits: Splits, metric: str):
    with pytest.raises(ConfigError, match="unknown metric"):
        search_exponents(splits, metric=metric, quiet=True)


def test_a_large_step_needs_fewer_users(splits: Splits, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "COARSE_SAMPLE", 25)
    found = search_exponents(splits, quiet=True)
    everybody = len(np.unique(splits.valid.user))
    assert [trial.users for trial in found.trials] == sorted(trial.users for trial in found.trials)
    assert {trial.users for trial in found.trials} == {25, everybody}


def test_those_asked_first_end_a_trial_that_is_clearly_behind(monkeypatch: pytest.MonkeyPatch):
    # Validation as the start itself recommends: every other pair is behind.
    start = Exponents(0.25, 0.875, 0.75)
    data = planted(splits_of(0, users=200, items=240, tastes=2), start)
    monkeypatch.setattr(search, "COARSE_SAMPLE", 50)
    found = search_exponents(data, metric="ndcg@5", start=start, quiet=True)
    assert found.exponents == start
    assert found.score == 1
    users = [trial.users for trial in found.trials]
    assert set(users) == {50, 200}
    at_small_step = found.trials[users.index(200) :]
    behind = {(one.exponents.q, one.exponents.p) for one in at_small_step if one.users == 50}
    # Every fourth of 200 is asked first, about each pair a small step up or down from the start.
    assert len(behind - {(start.q, start.p)}) == 4


def test_each_triple_is_tried_once_by_the_same_users(splits: Splits):
    found = search_exponents(splits, quiet=True)
    tried = [(trial.exponents, trial.users) for trial in found.trials]
    assert len(tried) == len(set(tried))
