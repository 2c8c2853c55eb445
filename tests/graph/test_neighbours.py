from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cerp.data.splits import Splits
from cerp.errors import BudgetError, ConfigError
from cerp.evaluation.evaluate import evaluate
from cerp.evaluation.ranking import top_k
from cerp.graph import build_neighbours as building
from cerp.graph.build_neighbours import Builder, Recipe, Weights
from cerp.graph.choose_neighbours import choose_neighbours
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents
from cerp.graph.neighbours import (
    Neighbours,
    NeighbourScorer,
    popularity_levels,
    pruned,
    quantised,
    without_smallest,
)
from small_graphs import splits_of

Bits = Literal[4, 8]
bits_of = st.sampled_from([4, 8])


def nothing_taken(items: int) -> npt.NDArray[np.uint8]:
    return np.zeros(items, dtype=np.uint8)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return splits_of(2, users=200, items=80, tastes=4)


@st.composite
def weights_of(draw: st.DrawFn) -> npt.NDArray[np.float64]:
    """Square matrices, targets in rows, of very different sizes."""
    size = draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = 10.0 ** rng.uniform(-3, 3, size)
    values: npt.NDArray[np.float64] = rng.standard_normal((size, size)) * sizes
    values[rng.random((size, size)) < 0.4] = 0
    return values


def as_dense(neighbours: Neighbours) -> npt.NDArray[np.float64]:
    """Targets in rows."""
    size = neighbours.num_items
    by_source = csr_array(
        (neighbours.values.astype(np.float64), neighbours.targets, neighbours.offsets),
        shape=(size, size),
    )
    return by_source.toarray().T


@given(weights_of(), bits_of)
def test_a_weight_is_off_by_half_a_scale_at_most(weights: npt.NDArray[np.float64], bits: Bits):
    found = quantised(csr_array(weights), bits, nothing_taken(len(weights)))
    peak = np.abs(weights).max(axis=0)
    # A scale is the largest weight of its source over 127 or 7, rounded up to 4 bits of fraction.
    scale = peak / (127 if bits == 8 else 7) * (1 + 2**-4) + 2**-18
    assert (found.scales.view(np.uint16) % 64 == 0).all()
    assert (np.abs(as_dense(found) - weights) <= scale / 2).all()
    assert (found.integers != 0).all()
    assert np.abs(found.integers).max(initial=0) <= (127 if bits == 8 else 7)


def test_a_known_answer_of_rounding():
    # Source 0 speaks for items 1 and 2 with 7 and 3.4: scale 1, integers 7 and 3.
    weights = csr_array([[0.0, 0, 0], [7, 0, 0], [3.4, 0, 0]])
    found = quantised(weights, 4, np.array([0, 8, 16], dtype=np.uint8))
    assert found.offsets.tolist() == [0, 2, 2, 2]
    assert found.targets.tolist() == [1, 2]
    assert found.integers.tolist() == [7, 3]
    assert found.scales.tolist() == [1, 0, 0]
    assert found.score_history([0]).tolist() == [-1, 7, 3]


@given(weights_of(), bits_of, st.data())
def test_a_history_is_the_sum_of_its_rows(
    weights: npt.NDArray[np.float64], bits: Bits, data: st.DataObject
):
    found = quantised(csr_array(weights), bits, nothing_taken(len(weights)))
    history = data.draw(st.lists(st.integers(0, len(weights) - 1)))
    expected = as_dense(found)[:, sorted(set(history))].sum(axis=1)
    expected[expected.astype(np.float32) == 0] = -1
    np.testing.assert_allclose(found.score_history(history), expected, rtol=1e-6, atol=1e-6)


def test_users_of_training_get_what_their_history_gets_to_the_bit(splits: Splits):
    rng = np.random.default_rng(0)
    weights = csr_array(rng.random((80, 80)) * (rng.random((80, 80)) < 0.2))
    found = quantised(weights, 8, popularity_levels(splits.train.item_counts))
    users = np.arange(splits.num_users, dtype=np.int32)
    scores = NeighbourScorer(found, splits.train).score_all(users)
    for user in users:
        begin, end = splits.train.user_offsets[user : user + 2]
        assert found.score_history(splits.train.item[begin:end]).tolist() == scores[user].tolist()


def test_what_a_history_says_nothing_of_follows_by_popularity():
    weights = csr_array([[0.0, 0, 0, 0], [7, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    found = quantised(weights, 4, popularity_levels(np.array([9, 1, 2, 5])))
    listed, _ = top_k(found.score_history([0])[None], 4)
    assert listed.tolist() == [[1, 0, 3, 2]]
    listed, _ = top_k(found.score_history([])[None], 4)
    assert listed.tolist() == [[0, 3, 2, 1]]


def test_pruning_keeps_the_largest_of_all():
    weights = csr_array([[0, 0.5, 0.2], [0.3, 0, -0.9], [0.4, 0.1, 0]])
    kept = pruned(weights, 3).toarray()
    assert kept.tolist() == [[0, 0.5, 0], [0.3, 0, 0], [0.4, 0, 0]]
    louder = pruned(weights, 2, importance=np.array([1.0, 10.0, 10.0])).toarray()
    assert louder.tolist() == [[0, 0.5, 0.2], [0, 0, 0], [0, 0, 0]]


def test_levels_of_popularity_tell_counts_apart_that_differ_by_a_tenth():
    # 8 log2 of 1, 2, 4 and 1024 are 0, 8, 16 and 80; of the largest count there can be, 248.
    assert popularity_levels(np.array([0, 1, 3, 1023, 2**31 - 1])).tolist() == [0, 8, 16, 80, 248]
    counts = np.arange(5000)
    levels, larger = (popularity_levels(d) for d in (counts, counts + counts // 10 + 1))
    assert (np.diff(levels.astype(int)) >= 0).all()
    assert (larger > levels).all()


def test_the_smallest_weights_are_left_out_first():
    weights = csr_array([[0.0, 5, 0], [7, 0, 2], [3, 1, 0]])
    found = without_smallest(quantised(weights, 8, nothing_taken(3)), 2)
    assert np.round(as_dense(found)).tolist() == [[0, 5, 0], [7, 0, 0], [3, 0, 0]]
    assert found.scales[2] == 0


def limited_to(count: int):
    return lambda neighbours: len(neighbours) / count


@pytest.mark.parametrize("limit", [30, 300, 2000])
@pytest.mark.parametrize("dense", [True, False])
def test_the_chosen_neighbours_fit_and_are_the_best_tried(
    splits: Splits, limit: int, dense: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(building, "DENSE_ITEMS", 6_000 if dense else 0)
    found = choose_neighbours(
        splits,
        limited_to(limit),
        2 * limit,
        exponents=lambda: Exponents(0.6, 0.7, 0.3),
        sample=None,
        quiet=True,
    )
    assert all(len(one.neighbours) <= limit for one in found.tried)
    assert {"ease", "cosine"} <= {one.recipe.kind for one in found.tried}
    assert found.best.score == max(one.score for one in found.tried) == found.score
    scorer = NeighbourScorer(found.best.neighbours, splits.train)
    assert found.score == pytest.approx(evaluate(scorer, splits, on="valid").mean["ndcg@10"])
    assert found.best.fullness == len(found.best.neighbours) / limit > 0.95


@pytest.mark.parametrize("beside", [0, 50, 99])
@given(limit=st.integers(105, 2500))
def test_a_limit_is_kept_and_used(splits: Splits, beside: int, limit: int):
    # 6,320 weights, of which a number fit; the rest of the limit goes to what is there anyway.
    rng = np.random.default_rng(limit)
    matrix = csr_array(rng.random((80, 80)) + 0.5)
    builder = Builder(
        Edges.of(splits.train), lambda found: (beside + len(found)) / limit, matrix.nnz
    )
    found = builder.fitting(Weights(matrix), 8)
    assert 0.98 * limit - 1 <= beside + len(found.neighbours) <= limit


def test_the_weights_of_the_filter_are_scaled_for_half_precision(splits: Splits):
    builder = Builder(Edges.of(splits.train), limited_to(1000), 1000)
    weights = builder.weights(Recipe("filter", 4, exponents=Exponents(2, 2, 2)))
    assert weights.matrix.max() == 1
    assert len(builder.fitting(weights, 8).neighbours) > 900


def test_what_cannot_be_is_refused(splits: Splits):
    with pytest.raises(BudgetError, match="not a single weight between two items fits"):
        choose_neighbours(splits, lambda found: 2, 100, quiet=True)
    with pytest.raises(ConfigError, match="raise the regularization"):
        quantised(csr_array([[0, np.nan], [1, 0]]), 8, nothing_taken(2))
    with pytest.raises(ConfigError, match="too large for half precision"):
        quantised(csr_array([[0, 1e9], [1, 0]]), 8, nothing_taken(2))
    with pytest.raises(ConfigError, match="3, 4, 5, 6 or 8 bits, not 7"):
        quantised(csr_array([[0, 1], [1, 0]]), 7, nothing_taken(2))
