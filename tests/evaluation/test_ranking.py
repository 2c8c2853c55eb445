from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.errors import ConfigError, ScoreError
from cerp.evaluation import ranking
from cerp.evaluation.ranking import BLOCK, _torch_top_k, exclude, top_k


def by_sorting(scores: npt.NDArray[Any], k: int) -> list[list[int]]:
    """The rule, said in Python."""
    ranked = [sorted(range(len(row)), key=lambda i: (-row[i], i))[:k] for row in scores.tolist()]
    return [
        [i if scores[r, i] > -np.inf else -1 for i in columns] for r, columns in enumerate(ranked)
    ]


@st.composite
def tied_scores(draw: st.DrawFn) -> npt.NDArray[np.float32]:
    """Rows that hold few distinct values, -inf among them, below and above the use of blocks."""
    columns = draw(st.integers(1, 12) | st.integers(4 * BLOCK, 12 * BLOCK))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    levels = draw(st.sampled_from([1, 2, 5, 1000]))
    scores = rng.integers(levels, size=(3, columns)).astype(np.float32)
    scores[rng.random(scores.shape) < draw(st.sampled_from([0, 0.1, 0.9]))] = -np.inf
    return scores


@settings(deadline=None)
@given(tied_scores(), st.integers(1, 15))
def test_the_order_is_by_score_and_then_by_column(scores: npt.NDArray[Any], k: int) -> None:
    columns, best = top_k(scores, k)
    expected = by_sorting(scores, k)
    assert columns.tolist() == expected
    assert best.tolist() == np.sort(scores)[:, ::-1][:, :k].tolist()


@settings(deadline=None)
@given(tied_scores(), st.integers(1, 15))
def test_torch_and_numpy_agree(scores: npt.NDArray[Any], k: int) -> None:
    torch = pytest.importorskip("torch")
    columns, best = _torch_top_k(torch.from_numpy(scores), k)
    assert np.where(np.isinf(best), -1, columns).tolist() == top_k(scores, k)[0].tolist()


@pytest.mark.gpu
def test_the_accelerator_and_numpy_agree() -> None:
    torch = pytest.importorskip("torch")
    scores = np.random.default_rng(0).integers(50, size=(64, 5000)).astype(np.float32)
    on_device, _ = top_k(torch.from_numpy(scores).cuda(), 50)
    assert on_device.tolist() == top_k(scores, 50)[0].tolist()


def test_a_tie_across_the_cut_keeps_the_first_columns() -> None:
    columns, best = top_k(np.array([[1.0, 2.0, 1.0, 2.0, 1.0]]), 4)
    assert columns.tolist() == [[1, 3, 0, 2]]
    assert best.tolist() == [[2, 2, 1, 1]]


def test_minus_infinity_is_not_recommended() -> None:
    columns, _ = top_k(np.array([[-np.inf, 5.0, -np.inf]]), 2)
    assert columns.tolist() == [[1, -1]]


def test_lists_are_as_long_as_the_catalogue_at_most() -> None:
    assert top_k(np.zeros((2, 3)), 10)[0].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_no_rows_give_no_lists() -> None:
    assert top_k(np.zeros((0, 1000)), 3)[0].shape == (0, 3)


@pytest.mark.parametrize("column", [0, 300, 10 * BLOCK, 10 * BLOCK + 5])
def test_nan_is_refused_wherever_it_is(column: int) -> None:
    scores = np.zeros((2, 10 * BLOCK + 6), dtype=np.float32)
    scores[1, column] = np.nan
    with pytest.raises(ScoreError, match="NaN"):
        top_k(scores, 2)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_rows_on_several_cores_are_ranked_as_on_one(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = np.random.default_rng(rows).integers(0, 9, (rows, 700)).astype(np.float32)
    columns, best = top_k(scores, 5)
    monkeypatch.setattr(ranking, "MANY_SCORES", 1)
    monkeypatch.setattr(ranking, "allowed_threads", lambda: 3)
    assert np.array_equal(top_k(scores, 5)[0], columns)
    assert np.array_equal(top_k(scores, 5)[1], best)
    scores[-1, 3] = np.nan
    with pytest.raises(ScoreError, match="NaN"):
        top_k(scores, 5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tensors_of_any_precision_are_ranked(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    scores = torch.tensor([[0.5, 2.0, 1.0]], dtype=getattr(torch, dtype), requires_grad=True)
    assert top_k(scores, 2)[0].tolist() == [[1, 2]]


def test_integers_are_not_scores() -> None:
    with pytest.raises(ScoreError, match="int64"):
        top_k(np.zeros((1, 3), dtype=np.int64), 1)


def test_a_single_row_must_be_a_matrix_too() -> None:
    with pytest.raises(ScoreError, match=r"\(3,\)"):
        top_k(np.zeros(3), 1)


def test_k_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="got 0"):
        top_k(np.zeros((1, 3)), 0)


def test_excluding_leaves_read_only_scores_alone() -> None:
    shared = np.broadcast_to(np.float32([1, 2, 3]), (2, 3))
    excluded = exclude(shared, np.array([0, 1]), np.array([2, 0]))
    assert excluded.tolist() == [[1, 2, -np.inf], [-np.inf, 2, 3]]
    assert shared.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_excluding_works_on_tensors_of_inference_mode() -> None:
    torch = pytest.importorskip("torch")
    with torch.inference_mode():
        scores = torch.zeros(1, 3)
    assert top_k(exclude(scores, np.array([0]), np.array([1])), 3)[0].tolist() == [[0, 2, -1]]


def test_ranking_arrays_does_not_import_torch() -> None:
    code = (
        "import sys, numpy; sys.modules['torch'] = None\n"
        "import cerp.evaluation.evaluate, cerp.evaluation.baselines, cerp.evaluation.id_leak\n"
        "from cerp.evaluation.ranking import top_k\n"
        "assert top_k(numpy.eye(3), 1)[0].tolist() == [[0], [1], [2]]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
