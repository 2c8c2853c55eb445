from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cerp.errors import ConfigError
from cerp.graph import ease as ease_module
from cerp.graph.arithmetic import inverse_power
from cerp.graph.ease import cosine, ease, refitted, strongest_cooccurrence
from cerp.graph.filter import Exponents, GraphFilter
from small_graphs import edges_of, taken_matrices

positive = st.floats(0.1, 100)


@given(taken_matrices(), positive)
def test_ease_regresses_every_item_on_all_others(taken: npt.NDArray[np.bool_], penalty: float):
    ratings = taken.astype(np.float64)
    weights = ease(edges_of(taken), penalty)
    for target in range(ratings.shape[1]):
        others = [item for item in range(ratings.shape[1]) if item != target]
        x, y = ratings[:, others], ratings[:, target]
        expected = np.linalg.solve(x.T @ x + penalty * np.eye(len(others)), x.T @ y)
        np.testing.assert_allclose(weights[target, others], expected, atol=1e-9)
        assert weights[target, target] == 0


def test_a_known_answer_of_ease():
    # Two items, both taken by users 0 and 1; item 0 also by user 2: G = [[3, 2], [2, 2]].
    weights = ease(edges_of(np.array([[1, 1], [1, 1], [1, 0]], dtype=bool)), 1.0)
    # From item 1 to item 0: 2 / (2 + 1); from item 0 to item 1: 2 / (3 + 1).
    np.testing.assert_allclose(weights, [[0, 2 / 3], [2 / 4, 0]])


@given(taken_matrices(), positive, st.integers(0, 2**32 - 1), st.booleans())
def test_on_a_support_each_target_is_regressed_on_its_own(
    taken: npt.NDArray[np.bool_], penalty: float, seed: int, whole_gram: bool
):
    ratings = taken.astype(np.float64)
    support = np.random.default_rng(seed).random((ratings.shape[1],) * 2) < 0.5
    np.fill_diagonal(support, False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ease_module, "GRAM_ITEMS", 8_000 if whole_gram else 0)
        found = refitted(edges_of(taken), csr_array(support.astype(np.float64)), penalty)
    for target, chosen in enumerate(support):
        x = ratings[:, chosen]
        gram = x.T @ x + penalty * np.eye(x.shape[1])
        expected = np.zeros(len(support))
        expected[chosen] = np.linalg.solve(gram, x.T @ ratings[:, target])
        np.testing.assert_allclose(found.toarray()[target], expected, atol=1e-9)


def test_on_the_support_of_all_others_it_is_ease():
    edges = edges_of(np.random.default_rng(0).random((30, 7)) < 0.4)
    support = csr_array(1 - np.eye(7))
    np.testing.assert_allclose(refitted(edges, support, 3.0).toarray(), ease(edges, 3.0))


@given(taken_matrices(), st.integers(1, 4))
def test_cosines_are_the_largest_of_each_target(taken: npt.NDArray[np.bool_], count: int):
    ratings = taken.astype(np.float64)
    length = np.sqrt(np.maximum(ratings.sum(axis=0), 1))
    exact = ratings.T @ ratings / length[:, None] / length
    np.fill_diagonal(exact, 0)
    found = cosine(edges_of(taken), count).toarray()
    for row, all_of_them in zip(found, exact, strict=True):
        largest = np.sort(all_of_them)[::-1][:count]
        np.testing.assert_allclose(np.sort(row)[::-1][:count], largest, atol=1e-12)
        np.testing.assert_allclose(row[row > 0], all_of_them[row > 0])
        assert np.count_nonzero(row) <= count


def test_all_weights_of_the_filter_make_its_scores():
    edges = edges_of(np.random.default_rng(0).random((20, 9)) < 0.4)
    chosen = Exponents(0.75, 0.5, 0.25)
    weights = strongest_cooccurrence(
        edges,
        9,
        start=inverse_power(edges.item_degrees, chosen.p),
        middle=inverse_power(edges.user_degrees, chosen.q),
        end=inverse_power(edges.item_degrees, chosen.r),
    )
    strengths = GraphFilter(edges, chosen).strengths(np.arange(20, dtype=np.int32))
    for user, row in enumerate(strengths):
        taken = edges.history(user)
        others = np.setdiff1d(np.arange(9), taken)
        sums = weights.toarray()[:, taken].sum(axis=1)
        np.testing.assert_allclose(sums[others], row[others], rtol=1e-6)


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch):
    edges = edges_of(np.ones((3, 3), dtype=bool))
    with pytest.raises(ConfigError, match="must be positive, got 0"):
        ease(edges, 0)
    monkeypatch.setattr(ease_module, "MOST_DENSE_ITEMS", 2)
    with pytest.raises(ConfigError, match="use a sparse support"):
        ease(edges, 1.0)
