"""Runs of EASE with all weights: a file without users, judged as it is written."""

from __future__ import annotations

import numpy as np
import pytest

import cerp
from cerp.comparison.variants import has_budget, has_vectors
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError
from cerp.graph import choose_ease as choosing
from cerp.graph.edges import Edges
from cerp.methods import ease as method_module


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


def exact_weights(splits: Splits, penalty: float) -> np.ndarray:
    """B of the paper's equations, from source to target, by a dense inverse of one's own."""
    ratings = np.zeros((splits.num_users, splits.num_items))
    ratings[splits.train.user, splits.train.item] = 1
    inverse = np.linalg.inv(ratings.T @ ratings + penalty * np.eye(splits.num_items))
    weights = np.eye(splits.num_items) - inverse / np.diag(inverse)[None, :]
    np.fill_diagonal(weights, 0)
    return weights


def test_all_weights_are_within_half_a_scale_of_the_exact_ones(splits: Splits):
    found = choosing.all_weights(Edges.of(splits.train), 30.0)
    dense = np.zeros((splits.num_items, splits.num_items))
    sources = np.repeat(np.arange(splits.num_items), np.diff(found.offsets))
    dense[sources, found.targets] = found.values
    scales = found.scales.astype(np.float64)[:, None]
    assert (np.abs(dense - exact_weights(splits, 30.0)) <= scales / 2 + 1e-12).all()
    assert (found.values < 0).any(), "negative weights are weights, too"


def test_the_regularization_is_the_best_of_its_neighbours_on_validation(splits: Splits):
    found = choosing.choose_ease(splits, quiet=True)
    by_step = {one.regularization: one.score for one in found.tried}
    at = choosing.LADDER.index(found.best.regularization)
    assert 0 < at < len(choosing.LADDER) - 1
    assert found.best.score == max(by_step.values())
    assert {choosing.LADDER[at - 1], choosing.LADDER[at + 1]} <= by_step.keys()


def test_a_run_ranks_as_the_exact_weights_do_and_its_file_as_the_run(splits: Splits):
    model = cerp.fit(splits, method="ease", verbose=False)
    assert model.budget == "none"
    assert model.facts.stored_count == len(model.item_model) <= 200 * 199
    assert model.facts.embedding_bytes <= model.facts.file_bytes == len(model.file())
    ratings = np.zeros((splits.num_users, splits.num_items))
    ratings[splits.train.user, splits.train.item] = 1
    exact = ratings @ exact_weights(splits, model.facts.search["regularization"])

    class Exact:
        def score_all(self, users):
            return exact[users].astype(np.float32)

    expected = cerp.evaluate(Exact(), splits).mean["ndcg@10"]
    assert model.metrics["test"]["ndcg@10"] == pytest.approx(expected, abs=0.01)


def test_a_refit_learns_from_validation_rows_too(splits: Splits):
    plain = cerp.fit(splits, method="ease", verbose=False)
    refit = cerp.fit(splits, method="ease", refit="train+valid", verbose=False)
    assert refit.facts.search["regularization"] == plain.facts.search["regularization"]
    assert refit.item_model.popularity.sum() > plain.item_model.popularity.sum()


def test_too_many_items_and_too_small_a_file_are_refused(splits: Splits, monkeypatch):
    with pytest.raises(BudgetError, match="times what the limit allows; choose method=neighbours"):
        cerp.fit(splits, method="ease", max_file_size="9KB", verbose=False)
    monkeypatch.setattr(method_module, "MOST_DENSE_ITEMS", 199)
    with pytest.raises(BudgetError, match="200 are more than the 199 it is possible for"):
        cerp.fit(splits, method="ease", verbose=False)


def test_comparisons_know_that_it_has_neither_budget_nor_backbone():
    assert not has_budget("ease")
    assert not has_vectors("ease")
