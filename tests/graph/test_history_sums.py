from __future__ import annotations

import numpy as np
import pytest

from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.graph.edges import Edges
from cerp.graph.history_sums import HistorySums, HistoryVectors, SummedItems
from cerp.graph.neighbours import popularity_levels
from cerp.graph.scaled_svd import ScaledSvd, Scaling
from small_graphs import splits_of


@pytest.fixture(scope="module")
def splits() -> Splits:
    return splits_of(4, users=150, items=40, tastes=4)


def dense(splits: Splits) -> np.ndarray:
    taken = np.zeros((splits.num_users, splits.num_items))
    taken[splits.train.user, splits.train.item] = 1
    return taken


# Sums


def test_an_item_counts_by_how_often_it_was_taken():
    # 1 + d = 1, 2, 4 and 16 takers and one more; 2^(9/8) = 2.18 counts as 3.
    sums = HistorySums(0.5, np.array([0, 8, 16, 32, 9], dtype=np.uint8))
    assert sums.weights[:4].tolist() == [1, 1 / np.sqrt(2), 0.5, 0.25]
    assert sums.weights[4] == 1 / np.sqrt(3)
    assert HistorySums(0.0, sums.popularity).weights.tolist() == [1, 1, 1, 1, 1]


def test_levels_give_back_the_number_of_takers():
    degrees = np.array([0, 1, 2, 3, 7, 100, 12_345])
    sums = HistorySums(1.0, popularity_levels(degrees))
    # Down to the level below, which is a twelfth at most, and up to the next integer.
    assert (1 / sums.weights <= 1 + degrees).all()
    assert (1 / sums.weights >= (1 + degrees) / 2 ** (1 / 8)).all()


def test_vectors_are_added_with_their_weights():
    items = np.array([[1, 0], [0, 2], [4, 4]], dtype=np.float32)
    sums = HistorySums(0.5, np.array([0, 16, 32], dtype=np.uint8))
    assert sums.vector(items, np.array([2, 0])).tolist() == [2, 1]
    assert sums.vector(items, np.array([1])).tolist() == [0, 1]
    assert sums.vector(items, np.array([], dtype=np.int32)).tolist() == [0, 0]


def test_users_are_scored_by_their_histories(splits: Splits):
    rng = np.random.default_rng(0)
    items = rng.standard_normal((splits.num_items, 5)).astype(np.float32)
    sums = HistorySums(0.25, popularity_levels(splits.train.item_counts))
    users = np.array([3, 0, 149], dtype=np.int32)
    found = HistoryVectors(items, sums, splits.train).score_all(users)
    wanted = (dense(splits)[users] * sums.weights) @ items @ items.T
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_vectors_are_sums_of_the_rows_of_books():
    books = (
        np.array([[1, 0], [0, 1]], dtype=np.float32),
        np.array([[5, 5], [7, 0]], dtype=np.float32),
    )
    sums = HistorySums(0.0, np.zeros(3, dtype=np.uint8))
    codes = np.array([[0, 0], [1, 0], [1, 1]], dtype=np.int32)
    items = SummedItems(sums, books, codes, "int8")
    assert items.vectors.tolist() == [[6, 5], [5, 6], [7, 1]]
    assert (len(items), items.num_items, items.dim) == (8, 3, 2)
    plain = SummedItems(sums, (np.ones((3, 4), dtype=np.float32),), None, "int8")
    assert (len(plain), plain.dim) == (12, 4)


# The decomposition


@pytest.mark.parametrize(
    "scaling",
    [
        Scaling(5, items=0, users=0, lengths=0, spectrum=0, history=0),  # PureSVD
        Scaling(4, items=0.5, users=0.5, lengths=0.5, spectrum=0, history=0.5),  # low-pass
        Scaling(3, items=0.25, users=0.125, lengths=-0.125, spectrum=0.5, history=0.375),
    ],
    ids=str,
)
def test_scores_are_those_of_a_dense_decomposition(splits: Splits, scaling: Scaling):
    taken = dense(splits)
    by_item = np.maximum(taken.sum(axis=0), 1)
    by_user = np.maximum(taken.sum(axis=1), 1)
    scaled = by_user[:, None] ** -scaling.users * taken * by_item**-scaling.items
    _, singular, right = np.linalg.svd(scaled)
    leading = right[: scaling.rank].T * (singular[: scaling.rank] / singular[0]) ** scaling.spectrum
    wanted = (taken * by_item**-scaling.history) @ leading @ leading.T * by_item**scaling.lengths
    vectors = ScaledSvd(Edges.of(splits.train), 6).vectors(scaling)
    found = (taken * by_item**-scaling.sum_exponent) @ vectors @ vectors.T
    np.testing.assert_allclose(found / found.std(), wanted / wanted.std(), atol=1e-3)
    assert np.square(vectors).mean() == pytest.approx(1, rel=1e-5)


def test_an_item_that_nobody_took_has_no_vector():
    splits = splits_of(4, users=150, items=40, tastes=4)
    edges = Edges(splits.train.user_offsets, splits.train.item, splits.num_items + 1)
    scaling = Scaling(3, items=0.25, users=0, lengths=0.25, spectrum=0, history=0)
    np.testing.assert_allclose(ScaledSvd(edges, 3).vectors(scaling)[-1], 0, atol=1e-5)


def test_directions_beyond_the_rank_of_the_data_are_nothing():
    taken = np.zeros((12, 9), dtype=bool)
    taken[:6, :4] = taken[6:, 4:] = True  # of rank 2
    user, item = np.nonzero(taken)
    edges = Edges(np.searchsorted(user, np.arange(13)), item.astype(np.int32), 9)
    scaling = Scaling(4, items=0, users=0, lengths=0, spectrum=0, history=0)
    vectors = ScaledSvd(edges, 4).vectors(scaling)
    assert (np.abs(vectors[:, 2:]) < 1e-4).all()
    assert np.linalg.matrix_rank(vectors, tol=1e-3) == 2


def test_a_rank_must_be_below_users_and_items(splits: Splits):
    edges = Edges.of(splits.train)
    for rank in (0, 40):
        with pytest.raises(ConfigError, match="the rank must be between 1 and 39"):
            ScaledSvd(edges, rank)
