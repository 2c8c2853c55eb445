"""A scaled SVD as a teacher: vectors of users and items, and the student that learns from them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cerp
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import DataError
from cerp.evaluation.evaluate import evaluate
from cerp.graph.history_sums import HistorySums, HistoryVectors
from cerp.methods.als.search import DotProducts
from cerp.methods.svd.search import ScalingSearch
from cerp.methods.svd.teacher import svd_teacher
from cerp.progress import progress
from small_graphs import splits_of

DIM = 12


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


@pytest.fixture(scope="module")
def vectors(splits: Splits) -> np.ndarray:
    return svd_teacher(splits, DIM, metric="ndcg@10", seed=0, quiet=True)


def test_scores_are_those_of_the_svd_times_a_number(splits: Splits, vectors: np.ndarray):
    with progress("svd", quiet=True) as bar:
        search = ScalingSearch(splits, "ndcg@10", 0, DIM, bar)
        scaling = search.best()
    items = search.svd.vectors(scaling)
    sums = HistorySums(scaling.sum_exponent, search.popularity)
    users = np.arange(splits.num_users, dtype=np.int32)
    wanted = HistoryVectors(items, sums, splits.train).score_all(users)
    found = DotProducts(vectors, splits.num_users).score_all(users)
    factor = float(np.abs(found).mean() / np.abs(wanted).mean())
    np.testing.assert_allclose(found, factor * wanted, rtol=1e-3, atol=1e-3 * np.abs(found).mean())


def test_users_and_items_are_of_one_length_in_the_mean(splits: Splits, vectors: np.ndarray):
    assert vectors.shape == (splits.num_entities, DIM)
    squares = np.square(vectors, dtype=np.float64)
    users, items = squares[: splits.num_users].mean(), squares[splits.num_users :].mean()
    assert users == pytest.approx(items, rel=1e-3)


def test_data_without_enough_users_is_refused():
    with pytest.raises(DataError, match="needs three users and three items"):
        svd_teacher(splits_of(0), 1, metric="ndcg@10", seed=0, quiet=True)


def test_the_run_says_what_the_teacher_had(splits: Splits, vectors: np.ndarray, tmp_path: Path):
    settings = {"dim": DIM, "epochs": 1, "prune_epochs": 1, "seen": False}
    model = cerp.fit(
        splits, "50%", backbone="mf", teacher="svd", verbose=False, output=tmp_path, **settings
    )
    told = {"name": "svd", "valid_ndcg@10": pytest.approx(_valid(splits, vectors))}
    [written] = json.loads((tmp_path / "metrics.json").read_text())["models"]
    assert model.facts.search["teacher"] == told
    assert written["search"]["teacher"] == told


@pytest.mark.parametrize(("asked", "teacher"), [(None, "svd"), ("none", None)])
def test_a_model_without_a_graph_has_it_unless_told_otherwise(
    splits: Splits, monkeypatch: pytest.MonkeyPatch, asked: str | None, teacher: str | None
):
    monkeypatch.setattr("cerp.presets.TAUGHT_ROWS", (1, len(splits.train)))
    settings = {"dim": 8, "epochs": 1, "prune_epochs": 1, "teacher": asked}
    model = cerp.fit(splits, "50%", backbone="mf", verbose=False, **settings)
    assert model.config.teacher == teacher
    assert (model.config.train.epochs, model.config.prune.epochs) == (1, 1)
    assert ("teacher" in model.facts.search) == (teacher is not None)


def _valid(splits: Splits, vectors: np.ndarray) -> float:
    scorer = DotProducts(vectors, splits.num_users)
    return evaluate(scorer, splits, on="valid").mean["ndcg@10"]
