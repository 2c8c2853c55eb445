from __future__ import annotations

import numpy as np
import pytest

from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.evaluate import evaluate
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter
from cerp.graph.svd_term import FilterWithLowPass, LowPass, search_low_pass
from small_graphs import splits_of


@pytest.fixture(scope="module")
def splits() -> Splits:
    return splits_of(4, users=150, items=40, tastes=4)


def test_the_term_is_that_of_a_dense_decomposition(splits: Splits):
    edges = Edges.of(splits.train)
    ratings = np.zeros((splits.num_users, splits.num_items))
    ratings[splits.train.user, splits.train.item] = 1
    by_user = np.maximum(ratings.sum(axis=1), 1) ** -0.5
    by_item = np.maximum(ratings.sum(axis=0), 1) ** -0.5
    leading = np.linalg.svd(by_user[:, None] * ratings * by_item)[2][:5].T
    expected = ratings * by_item @ leading @ leading.T / by_item
    found = LowPass(edges, 5).score_all(np.arange(splits.num_users, dtype=np.int32))
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_new_user_gets_the_same(splits: Splits):
    edges = Edges.of(splits.train)
    both = FilterWithLowPass(GraphFilter(edges, Exponents(0.5, 0.5, 0.5)), LowPass(edges, 4), 0.5)
    scores = both.score_all(np.arange(5, dtype=np.int32))
    for user in range(5):
        np.testing.assert_allclose(both.score_history(edges.history(user)), scores[user], rtol=1e-5)


def test_the_search_reports_both_parts(splits: Splits):
    edges = Edges.of(splits.train)
    model = GraphFilter(edges, Exponents(0.5, 0.5, 0.5))
    found = search_low_pass(splits, model, ranks=(2, 6))
    assert found.low_pass.rank in (2, 6)
    assert found.helps == (found.alpha > 0)
    assert found.filter_score == pytest.approx(
        evaluate(model, splits, on="valid").mean["ndcg@10"], rel=1e-12
    )
    assert found.low_pass_score == pytest.approx(
        evaluate(found.low_pass, splits, on="valid").mean["ndcg@10"], rel=1e-12
    )


def test_a_rank_beyond_the_data_is_refused(splits: Splits):
    with pytest.raises(ConfigError, match="between 1 and 39, got 40"):
        LowPass(Edges.of(splits.train), 40)
