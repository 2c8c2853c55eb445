from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from small_graphs import splits_of

from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.evaluate import evaluate
from cerp.evaluation.ranking import top_k
from cerp.graph import choose_neighbours as choosing
from cerp.graph.choose_neighbours import choose_neighbours
from cerp.graph.filter import Exponents
from cerp.graph.neighbours import (
    Neighbours,
    NeighbourScorer,
    estimated_bytes,
    pruned,
    quantised,
)

Bits = Literal[4, 8]
bits_of = st.sampled_from([4, 8])


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
    found = quantised(csr_array(weights), bits)
    peak = np.abs(weights).max(axis=0)
    # A scale is the largest weight of its source over 127 or 7, rounded up to half precision.
    scale = peak / (127 if bits == 8 else 7) * (1 + 2**-10) + 2**-24
    assert (np.abs(as_dense(found) - weights) <= scale / 2).all()
    assert (found.integers != 0).all()
    assert np.abs(found.integers).max(initial=0) <= (127 if bits == 8 else 7)


def test_a_known_answer_of_rounding():
    # Source 0 speaks for items 1 and 2 with 7 and 3.4: scale 1, integers 7 and 3.
    weights = csr_array([[0.0, 0, 0], [7, 0, 0], [3.4, 0, 0]])
    found = quantised(weights, 4)
    assert found.offsets.tolist() == [0, 2, 2, 2]
    assert found.targets.tolist() == [1, 2]
    assert found.integers.tolist() == [7, 3]
    assert found.scales.tolist() == [1, 0, 0]
    assert found.score_history([0]).tolist() == [0, 7, 3]


@given(weights_of(), bits_of, st.data())
def test_a_history_is_the_sum_of_its_rows(
    weights: npt.NDArray[np.float64], bits: Bits, data: st.DataObject
):
    found = quantised(csr_array(weights), bits)
    history = data.draw(st.lists(st.integers(0, len(weights) - 1)))
    expected = as_dense(found)[:, sorted(set(history))].sum(axis=1)
    np.testing.assert_allclose(found.score_history(history), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("with_degrees", [True, False])
def test_users_of_training_get_what_their_history_gets_to_the_bit(
    splits: Splits, with_degrees: bool
):
    rng = np.random.default_rng(0)
    weights = csr_array(rng.random((80, 80)) * (rng.random((80, 80)) < 0.2))
    degrees = splits.train.item_counts if with_degrees else None
    found = quantised(weights, 8, degrees)
    users = np.arange(splits.num_users, dtype=np.int32)
    scores = NeighbourScorer(found, splits.train).score_all(users)
    for user in users:
        begin, end = splits.train.user_offsets[user : user + 2]
        assert found.score_history(splits.train.item[begin:end]).tolist() == scores[user].tolist()


def test_what_a_history_says_nothing_of_follows_by_popularity():
    weights = csr_array([[0.0, 0, 0, 0], [7, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    found = quantised(weights, 4, np.array([9, 1, 2, 5]))
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


def test_the_estimate_counts_values_scales_and_positions():
    # 64 sources with one target each, the same cell in every row: a constant gap of 63.
    weights = csr_array(np.eye(64)[::-1].T @ np.eye(64)[::-1])
    found = quantised(weights, 8)
    assert len(found) == 64
    # 8 bits and a scale of 16 each; the gaps are 0 once and 64 (66 in six bits: 4 extra) 63 times.
    entropy = np.log2(64) + 63 * np.log2(64 / 63)
    assert estimated_bytes(found) == np.ceil((64 * 24 + entropy + 63 * 4) / 8)


@pytest.mark.parametrize("limit", [300, 800, 2000])
@pytest.mark.parametrize("dense", [True, False])
def test_the_chosen_neighbours_fit_and_are_the_best_tried(
    splits: Splits, limit: int, dense: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(choosing, "DENSE_ITEMS", 6_000 if dense else 0)
    found = choose_neighbours(
        splits, limit, exponents=Exponents(0.6, 0.7, 0.3), sample=None, quiet=True
    )
    assert all(one.bytes <= limit for one in found.tried)
    assert {one.kind for one in found.tried} == {"ease", "cosine", "filter"}
    assert found.best.score == max(one.score for one in found.tried) == found.score
    scorer = NeighbourScorer(found.best.neighbours, splits.train)
    assert found.score == pytest.approx(evaluate(scorer, splits, on="valid").mean["ndcg@10"])
    assert any(one.bytes > 0.9 * limit for one in found.tried)


def test_the_caller_may_measure_bytes(splits: Splits):
    found = choose_neighbours(splits, 100, kinds=("cosine",), size_of=len, quiet=True)
    assert 90 <= len(found.best.neighbours) <= 100


def test_what_cannot_be_is_refused(splits: Splits):
    with pytest.raises(ConfigError, match="no item neighbours fit into 3 bytes"):
        choose_neighbours(splits, 3, kinds=("cosine",), quiet=True)
    with pytest.raises(ConfigError, match="need a source of weights"):
        choose_neighbours(splits, 300, kinds=("filter",), quiet=True)
    with pytest.raises(ConfigError, match="raise the regularization"):
        quantised(csr_array([[0, np.nan], [1, 0]]), 8)
