from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.baselines import Random
from cerp.evaluation.evaluate import evaluate
from cerp.graph import mixture
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter
from cerp.graph.mixture import Mixture, log_share, search_mixture
from small_graphs import edges_of, splits_of

ONE = np.array([0], dtype=np.int32)


class Constant:
    """The same scores for everybody."""

    def __init__(self, scores: list[float]) -> None:
        self.scores = np.array(scores, dtype=np.float32)

    def score_all(self, users: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        return np.tile(self.scores, (len(users), 1))


class Truth:
    """High scores for half of what validation holds, noise elsewhere."""

    def __init__(self, splits: Splits) -> None:
        rng = np.random.default_rng(0)
        self.scores = rng.random((splits.num_users, splits.num_items)).astype(np.float32)
        known = rng.random(len(splits.valid)) < 0.5
        self.scores[splits.valid.user[known], splits.valid.item[known]] += 0.7

    def score_all(self, users: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        return self.scores[users]


@pytest.fixture(scope="module")
def splits() -> Splits:
    return splits_of(3, users=200, items=80, tastes=4)


@pytest.fixture(scope="module")
def model(splits: Splits) -> GraphFilter:
    return GraphFilter(Edges.of(splits.train), Exponents(0.6, 0.7, 0.3))


def test_a_known_answer():
    # User 0 took item 0. User 1 took 0, 1 and 2; user 2 took 0 and 1. With exponents of 0,
    # F counts paths: 2 to item 1, 1 to item 2, none to item 3, which user 3 took.
    taken = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]], dtype=bool)
    model = GraphFilter(edges_of(taken), Exponents(0, 0, 0))
    assert model.strengths(ONE)[0, 1:].tolist() == [2, 1, 0]
    scores = Mixture(Constant([0, 1, 2, 3]), model, beta=2.0, epsilon=0.5).score_all(ONE)[0]
    expected = [1 + 2 * math.log(0.5 + 1), 2 + 2 * math.log(0.5 + 0.5), 3 + 2 * math.log(0.5)]
    np.testing.assert_allclose(scores[1:], expected, rtol=1e-7)


def test_the_maximum_leaves_out_what_is_taken():
    share = log_share(np.array([8, 2, 1, 0], dtype=np.float32), np.array([0]), 0.25)
    np.testing.assert_allclose(share, np.log([4.25, 1.25, 0.75, 0.25]), rtol=1e-14)


def test_where_paths_lead_to_taken_items_alone_nobody_has_a_share():
    share = log_share(np.array([3, 0, 0], dtype=np.float32), np.array([0]), 0.25)
    np.testing.assert_allclose(share, np.log([0.25, 0.25, 0.25]), rtol=1e-14)


def test_without_paths_only_the_vectors_are_left():
    taken = np.eye(2, 3, dtype=bool)
    model = GraphFilter(edges_of(taken), Exponents(0.5, 0.5, 0.5))
    scores = Mixture(Constant([0, 2, 1]), model, beta=3.0, epsilon=0.125).score_all(ONE)[0]
    np.testing.assert_allclose(scores[1:], [2 + 3 * math.log(0.125), 1 + 3 * math.log(0.125)])


def test_a_user_without_rows_gets_popularity():
    taken = np.array([[0, 0, 0], [0, 1, 1], [0, 0, 1]], dtype=bool)
    model = GraphFilter(edges_of(taken), Exponents(0.5, 0.5, 0.5))
    scores = Mixture(Constant([9, 0, 0]), model, beta=1.0, epsilon=0.1).score_all(ONE)[0]
    assert np.argsort(-scores).tolist() == [2, 1, 0]


def test_a_beta_of_zero_leaves_the_vectors_as_they_are(splits: Splits, model: GraphFilter):
    vectors = Random(splits.num_items)
    users = np.unique(splits.train.user)
    mixed = Mixture(vectors, model, beta=0, epsilon=0.1).score_all(users)
    assert (mixed == vectors.score_all(users)).all()


def test_a_mixture_that_helps_is_found(splits: Splits, model: GraphFilter):
    vectors = Truth(splits)
    found = search_mixture(splits, vectors, model, quiet=True)
    assert found.helps
    assert found.score > max(found.vectors_score, found.filter_score)
    mixture = Mixture(vectors, model, found.beta, found.epsilon)
    for scorer, score in (
        (mixture, found.score),
        (vectors, found.vectors_score),
        (model, found.filter_score),
    ):
        judged = evaluate(scorer, splits, on="valid").mean["ndcg@10"]
        assert score == pytest.approx(judged, rel=1e-12)


def test_a_mixture_below_one_of_its_parts_is_not_recommended(splits: Splits, model: GraphFilter):
    # Vectors that rank as the filter does: nothing can be gained.
    found = search_mixture(splits, model, model, quiet=True)
    assert found.score <= found.filter_score
    assert not found.helps


def test_a_mixture_that_is_all_filter_is_not_recommended(splits: Splits, model: GraphFilter):
    # Noise adds nothing: the best mixture drowns it, and is no better than the filter.
    found = search_mixture(splits, Random(splits.num_items), model, quiet=True)
    assert not found.helps


def test_the_search_covers_wide_ranges_and_refines(splits: Splits, model: GraphFilter):
    found = search_mixture(splits, Random(splits.num_items), model, quiet=True)
    betas = {trial.beta for trial in found.trials}
    epsilons = {trial.epsilon for trial in found.trials}
    assert min(betas) <= 0.25
    assert max(betas) >= 256
    assert min(epsilons) <= 1e-4
    assert max(epsilons) == 1
    assert len(found.trials) > 30


def test_scores_that_spread_further_are_mixed_alike_where_the_unit_says_so(
    splits: Splits, model: GraphFilter
):
    class Louder(Truth):
        def score_all(self, users: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
            return 64 * super().score_all(users)

    quiet = search_mixture(splits, Truth(splits), model, quiet=True)
    loud = search_mixture(splits, Louder(splits), model, quiet=True, unit=64)
    assert (loud.beta, loud.epsilon, loud.score) == (64 * quiet.beta, quiet.epsilon, quiet.score)


def test_a_few_users_sort_pairs_out_and_all_choose(
    splits: Splits, model: GraphFilter, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mixture, "FIRST_SAMPLE", 20)
    found = search_mixture(splits, Truth(splits), model, sample=None, quiet=True)
    everybody = len(np.unique(splits.valid.user))
    first = [trial for trial in found.trials if trial.users == 20]
    chosen = [trial for trial in found.trials if trial.users == everybody]
    assert len(first) == len(mixture.BETAS) * len(mixture.EPSILONS)
    assert len(first) + len(chosen) == len(found.trials)
    # The six best of the first come back, and then those around the best of them.
    best = sorted(first, key=lambda trial: -trial.score)[:6]
    assert {(one.beta, one.epsilon) for one in best} == {
        (one.beta, one.epsilon) for one in chosen[:6]
    }
    winner = max(chosen, key=lambda trial: trial.score)
    assert (found.beta, found.epsilon, found.score) == (winner.beta, winner.epsilon, winner.score)


@pytest.mark.parametrize(("beta", "epsilon"), [(-1, 0.1), (1, 0), (float("nan"), 0.1)])
def test_bad_settings_are_refused(model: GraphFilter, beta: float, epsilon: float):
    with pytest.raises(ConfigError, match="beta >= 0 and epsilon > 0"):
        Mixture(Constant([0.0]), model, beta, epsilon)
