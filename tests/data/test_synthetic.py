from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int, int]:
    users, items = draw(st.integers(2, 40)), draw(st.integers(5, 40))
    return users, items, draw(st.integers(max(5 * users, items), users * items))


@given(shapes(), st.integers(0, 3))
@settings(deadline=None)
def test_the_shape_is_exact_and_everyone_takes_part(shape, seed):
    users, items, total = shape
    data = synthetic(users, items, total, seed=seed)
    assert (data.num_users, data.num_items, len(data)) == shape
    assert np.diff(data.user_offsets).min() >= 5
    assert data.item_counts.min() >= 1


def test_the_default_is_what_the_documentation_says():
    data = synthetic()
    assert (data.num_users, data.num_items, len(data)) == (2_500, 1_800, 90_000)


def test_the_seed_decides_everything():
    one, same, other = (synthetic(50, 40, seed=seed) for seed in (1, 1, 2))
    assert one.fingerprint == same.fingerprint
    assert np.array_equal(one.time, same.time)
    assert one.fingerprint != other.fingerprint


def test_a_tenth_of_the_items_takes_more_than_a_third_and_the_users_are_uneven_too():
    data = synthetic()
    items = np.sort(data.item_counts)[::-1]
    users = np.sort(np.diff(data.user_offsets))[::-1]
    assert items[:180].sum() > 0.35 * len(data)
    assert users[:250].sum() > 0.25 * len(data)


def test_times_allow_a_split_by_time_that_knows_nearly_all_users():
    splits = synthetic().split("time")
    assert len(splits.test) == pytest.approx(18_000, rel=0.01)
    known = np.isin(np.unique(splits.test.user), splits.train.user)
    assert known.mean() > 0.99


def hits(splits: Splits, scores: np.ndarray) -> int:
    """How many of the first ten recommendations are in the test part, over all users."""
    scores = scores.astype(float)
    seen, truth = splits.train_and_valid, splits.test
    scores[seen.user, seen.item] = -np.inf
    wanted = np.zeros(scores.shape, dtype=bool)
    wanted[truth.user, truth.item] = True
    top = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    return int(np.take_along_axis(wanted, top, axis=1).sum())


def taken(splits: Splits) -> np.ndarray:
    matrix = np.zeros((splits.num_users, splits.num_items))
    matrix[splits.train_and_valid.user, splits.train_and_valid.item] = 1
    return matrix


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic().split(seed=0)


@pytest.mark.slow
def test_similar_items_recommend_more_than_twice_as_well_as_popular_ones(splits):
    matrix = taken(splits)
    unit = matrix / np.sqrt(np.maximum(matrix.sum(axis=0), 1))
    similarity = unit.T @ unit
    np.fill_diagonal(similarity, 0)
    popular = np.tile(matrix.sum(axis=0), (splits.num_users, 1))
    assert hits(splits, matrix @ similarity) > 2 * hits(splits, popular)


def test_few_dimensions_lose_what_many_can_hold(splits):
    matrix = taken(splits)
    degrees = np.sqrt(np.outer(matrix.sum(axis=1), np.maximum(matrix.sum(axis=0), 1)))
    left, values, right = svds(csr_array(matrix / degrees), k=64, v0=np.ones(splits.num_items))
    eight = np.argsort(values)[-8:]
    many = hits(splits, (left * values) @ right * degrees)
    few = hits(splits, (left[:, eight] * values[eight]) @ right[eight] * degrees)
    assert many > 1.5 * few


def window_hits(splits: Splits, side: str, ids: np.ndarray) -> int:
    """Hits of the recommender without parameters: what did users (or: items) nearby go with?"""
    nearby = np.abs(np.subtract.outer(ids, ids)) <= 5
    matrix = taken(splits)
    return hits(splits, nearby @ matrix if side == "users" else matrix @ nearby)


@pytest.mark.parametrize("side", ["users", "items"])
def test_neighbouring_ids_are_no_more_alike_than_any_others(side):
    splits = synthetic(600, 400, 15_000).split(seed=0)
    ids, rng = np.arange({"users": 600, "items": 400}[side]), np.random.default_rng(0)
    shuffled = [window_hits(splits, side, rng.permutation(ids)) for _ in range(10)]
    assert window_hits(splits, side, ids) < np.mean(shuffled) + 4 * np.std(shuffled)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 10), "at least 2 users and 5 items, not 1 and 10"),
        ((10, 10, 49), "10 users and 10 items, each of them used, can have 50 to 100"),
        ((10, 10, 101), "can have 50 to 100"),
        ((2, 30, 29), "can have 30 to 60"),
    ],
)
def test_an_impossible_shape_is_refused_with_what_is_possible(arguments, message):
    with pytest.raises(ConfigError, match=message):
        synthetic(*arguments)
