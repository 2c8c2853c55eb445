from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.errors import ConfigError
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.ranking import top_k
from cerp.graph.arithmetic import inverse_power
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter, unreached_by_popularity
from cerp.graph.two_hops import TwoHops
from small_graphs import edges_of, interactions, splits_of, taken_matrices

EXPONENTS = Exponents(0.6, 0.7, 0.3)
exponents = st.builds(Exponents, *[st.floats(0, 2)] * 3)


def dense_strengths(taken: npt.NDArray[np.bool_], chosen: Exponents) -> npt.NDArray[np.float64]:
    """``R D^-p Rᵀ D^-q R D^-r`` written out with dense matrices."""
    ratings = taken.astype(np.float64)

    def power(degrees: npt.NDArray[Any], exponent: float) -> npt.NDArray[np.float64]:
        return np.diag([degree**-exponent if degree else 0.0 for degree in degrees])

    by_item, by_user = ratings.sum(axis=0), ratings.sum(axis=1)
    return (
        ratings
        @ power(by_item, chosen.p)
        @ ratings.T
        @ power(by_user, chosen.q)
        @ ratings
        @ power(by_item, chosen.r)
    )


def plain_strengths(edges: Edges, history: list[int], chosen: Exponents) -> npt.NDArray[np.float32]:
    """The definition in loops, as another language would write it."""
    start = inverse_power(edges.item_degrees, chosen.p).tolist()
    middle = inverse_power(edges.user_degrees, chosen.q).tolist()
    end = inverse_power(edges.item_degrees, chosen.r).tolist()
    reach = [0.0] * edges.num_users
    for item in sorted(history):
        for user in range(edges.num_users):
            if item in edges.history(user):
                reach[user] += start[item]
    sums = [0.0] * edges.num_items
    for user in range(edges.num_users):
        for item in edges.history(user):
            sums[item] += reach[user] * middle[user]
    return np.array([np.float32(s * e) for s, e in zip(sums, end, strict=True)], np.float32)


def everyone(edges: Edges) -> npt.NDArray[np.int32]:
    return np.arange(edges.num_users, dtype=np.int32)


@given(taken_matrices(), exponents)
def test_strengths_are_those_of_the_dense_product(taken: npt.NDArray[np.bool_], chosen: Exponents):
    edges = edges_of(taken)
    found = GraphFilter(edges, chosen).strengths(everyone(edges))
    np.testing.assert_allclose(found, dense_strengths(taken, chosen), rtol=1e-6)


@given(taken_matrices(), exponents)
def test_strengths_are_those_of_the_plain_loops_to_the_bit(
    taken: npt.NDArray[np.bool_], chosen: Exponents
):
    edges = edges_of(taken)
    found = GraphFilter(edges, chosen).strengths(everyone(edges))
    for user, row in enumerate(found):
        assert row.tolist() == plain_strengths(edges, list(edges.history(user)), chosen).tolist()


@given(taken_matrices(), exponents)
def test_numpy_alone_gives_the_same_bits_as_scipy(taken: npt.NDArray[np.bool_], chosen: Exponents):
    edges = edges_of(taken)
    model = GraphFilter(edges, chosen)
    histories = [edges.history(user) for user in range(edges.num_users)]
    alone = TwoHops(edges, use_scipy=False).sums(histories, model.start, model.middle)
    for first, second in zip(model.sums(histories), alone, strict=True):
        assert first.tolist() == second.tolist()


def test_scipy_is_what_the_fast_way_uses_here():
    assert TwoHops(edges_of(np.ones((2, 2), dtype=bool))).use_scipy


def test_more_histories_than_a_batch_are_the_same_as_one_by_one():
    edges = Edges.of(splits_of(0, users=150).train)
    model = GraphFilter(edges, EXPONENTS)
    together = model.score_all(everyone(edges))
    for user in (0, 63, 64, 149):
        assert model.score_all(np.array([user], np.int32))[0].tolist() == together[user].tolist()


def test_a_known_answer():
    # user 0 took items 0 and 1; user 1 took items 1 and 2; user 2 took item 3.
    edges = edges_of(np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=bool))
    scores = GraphFilter(edges, Exponents(1, 1, 0.5)).score_all(np.array([0], np.int32))[0]
    # To item 2 one path leads: item 1 (d=2), user 1 (d=2): 1/2 * 1/2 * 1^-0.5.
    assert scores[2] == 0.25
    # No path leads to item 3, which one user took: -1 / (1 + 1).
    assert scores[3] == -0.5


@given(taken_matrices(), exponents, st.randoms())
def test_a_new_user_with_the_same_items_gets_the_same_scores(
    taken: npt.NDArray[np.bool_], chosen: Exponents, random: Any
):
    edges = edges_of(taken)
    model = GraphFilter(edges, chosen)
    scores = model.score_all(everyone(edges))
    for user in range(edges.num_users):
        items = edges.history(user).tolist() * 2
        random.shuffle(items)
        assert model.score_history(items).tolist() == scores[user].tolist()


@given(taken_matrices(), exponents, st.integers(0, 2**32 - 1))
def test_other_numbers_for_users_and_items_change_nothing(
    taken: npt.NDArray[np.bool_], chosen: Exponents, seed: int
):
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(taken.shape[0]), rng.permutation(taken.shape[1])
    edges, other = edges_of(taken), edges_of(taken[rows][:, columns])
    scores = GraphFilter(edges, chosen).score_all(everyone(edges))
    renumbered = GraphFilter(other, chosen).score_all(everyone(other))
    np.testing.assert_allclose(renumbered, scores[rows][:, columns], rtol=1e-6)


def test_a_user_without_rows_gets_popularity():
    splits = splits_of(1)
    taken = np.zeros((splits.num_users, splits.num_items), dtype=bool)
    taken[splits.train.user, splits.train.item] = True
    taken[3] = False
    edges = edges_of(taken)
    listed, _ = top_k(GraphFilter(edges, EXPONENTS).score_all(np.array([3], np.int32)), 60)
    counts = edges.item_degrees.astype(np.float32)
    assert listed.tolist() == top_k(counts[None], 60)[0].tolist()
    assert (
        listed.tolist()
        == top_k(GraphFilter(edges, EXPONENTS).score_history([])[None], 60)[0].tolist()
    )


def test_an_item_that_nobody_took_comes_last():
    taken = np.array([[1, 1, 0], [1, 0, 0]], dtype=bool)
    assert GraphFilter(edges_of(taken), EXPONENTS).score_all(np.array([1], np.int32))[0, 2] == -1


def test_unreached_items_rank_by_popularity_whatever_the_counts():
    counts = np.array([10**6, 10**6 + 1, 3, 4, 0])
    scores = np.zeros((1, 5), dtype=np.float32)
    unreached_by_popularity(scores, counts)
    listed, _ = top_k(scores, 5)
    assert listed.tolist() == [[1, 0, 3, 2, 4]]


def test_the_popularity_baseline_agrees_for_everyone_where_nothing_is_shared():
    taken = np.eye(3, 4, dtype=bool)
    edges = edges_of(taken)
    scores = GraphFilter(edges, EXPONENTS).score_all(everyone(edges))
    assert [row.argmax() for row in scores] == [0, 1, 2]
    others = Popularity(interactions(taken)).score_all(everyone(edges))
    for user in range(3):
        rest = [item for item in range(4) if item != user]
        assert np.argsort(-scores[user][rest], kind="stable").tolist() == (
            np.argsort(-others[user][rest], kind="stable").tolist()
        )


@given(taken_matrices(), exponents, st.integers(1, 10), st.data())
def test_lists_are_the_best_of_the_scores(
    taken: npt.NDArray[np.bool_], chosen: Exponents, k: int, data: st.DataObject
):
    edges = edges_of(np.concatenate([taken] * 3))  # more users than are ranked together
    model = GraphFilter(edges, chosen)
    without = np.array(
        data.draw(st.lists(st.integers(0, edges.num_items - 1), unique=True)), dtype=np.int32
    )
    scores = model.score_all(everyone(edges))
    scores[np.concatenate([taken] * 3)] = -np.inf
    scores[:, without] = -np.inf
    items, best = top_k(scores, k)
    histories = [edges.history(user) for user in range(edges.num_users)]
    found = model.best(histories, k, without=without)
    assert found[0].tolist() == items.tolist()
    assert found[1].tolist() == best.tolist()


def test_bad_items_are_refused():
    model = GraphFilter(edges_of(np.ones((2, 3), dtype=bool)), EXPONENTS)
    with pytest.raises(ConfigError, match=r"must be in 0\.\.2"):
        model.score_history([3])
    with pytest.raises(ConfigError, match="integers"):
        model.score_history([0.5])


def test_exponents_are_kept_as_multiples_of_a_thirty_second():
    assert (EXPONENTS.q, EXPONENTS.p, EXPONENTS.r) == (0.59375, 0.6875, 0.3125)
