from __future__ import annotations

import numpy as np
import pytest
import torch

from cerp.config import Config, RunOptions
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError, ConfigError
from cerp.methods.base import Context
from cerp.methods.legcf.embedding import ExpandedEmbedding, largest_weights
from cerp.methods.legcf.method import Legcf
from embedding_contract import DIM, ENTITIES, TRAIN, EmbeddingContract, seeded

CLUSTERS = np.arange(ENTITIES) % 5


class TestExpanded(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> ExpandedEmbedding:
        return ExpandedEmbedding(
            TRAIN, DIM, padding_idx, clusters=CLUSTERS, rows=5, generator=seeded(seed)
        )

    def fresh(self, padding_idx: int | None = None) -> ExpandedEmbedding:
        return self.build(padding_idx, seed=99)


def weights(embedding: ExpandedEmbedding) -> torch.Tensor:
    """S as a whole matrix."""
    found = torch.zeros((ENTITIES, 5))
    return found.scatter_add_(1, embedding.assigned, embedding.weights)


def test_rows_of_weights_sum_to_one_and_the_own_cluster_weighs_most():
    embedding = TestExpanded().build()
    found = weights(embedding)
    assert torch.allclose(found.sum(dim=1), torch.ones(ENTITIES))
    assert found.argmax(dim=1).tolist() == CLUSTERS.tolist()
    assert int((found > 0).sum(dim=1).max()) == 2


def test_the_graph_is_symmetric_and_its_values_are_shares():
    graph = TestExpanded().build().graph().to_dense()
    assert graph.shape == (ENTITIES + 5, ENTITIES + 5)
    assert torch.allclose(graph, graph.T)
    assert float(graph.min()) >= 0
    assert float(graph.max()) <= 1
    # Normalised twice: the largest eigenvalue of such a matrix is 1.
    assert float(torch.linalg.eigvalsh(graph).max()) == pytest.approx(1, abs=1e-5)


def test_vectors_are_the_mean_over_layers():
    embedding = TestExpanded().build()
    graph = embedding.graph().to_dense()
    start = torch.cat([torch.tanh(weights(embedding) @ embedding.meta), embedding.meta])
    powers = [torch.linalg.matrix_power(graph, layer) @ start for layer in range(4)]
    expected = torch.stack(powers).mean(dim=0)[:ENTITIES]
    torch.testing.assert_close(embedding.table(), expected, atol=1e-5, rtol=1e-4)


def test_weights_learn_nothing():
    embedding = TestExpanded().build()
    assert [name for name, _ in embedding.named_parameters()] == ["meta"]
    assert not embedding.weights.requires_grad


def test_weights_are_recovered_where_vectors_are_independent():
    rng = np.random.default_rng(0)
    vectors = torch.from_numpy(rng.normal(size=(4, 6)))
    expected = torch.zeros((10, 4), dtype=torch.float64)
    for row in range(10):
        two = rng.choice(4, 2, replace=False)
        expected[row, two] = torch.from_numpy(rng.uniform(0.1, 1, 2))
    places, values = largest_weights(expected @ vectors, vectors, 2)
    found = torch.zeros((10, 4), dtype=torch.float64).scatter_(1, places, values)
    assert torch.allclose(found, expected, atol=1e-10)


def test_weights_that_are_chosen_anew_are_not_negative_and_change_the_graph():
    embedding = TestExpanded().build()
    before = embedding.graph().to_dense()
    embedding.refresh()
    assert float(embedding.weights.min()) >= 0
    assert not torch.equal(embedding.graph().to_dense(), before)
    assert embedding.table().isfinite().all()


@pytest.mark.parametrize(("choices", "count"), [(2, 5 * DIM + 2 * ENTITIES), (1, 5 * DIM)])
def test_vectors_count_and_weights_where_they_are_not_all_one(choices: int, count: int):
    embedding = ExpandedEmbedding(TRAIN, DIM, clusters=CLUSTERS, rows=5, choices=choices)
    assert embedding.cost() == (count, count)
    embedding.refresh()
    assert choices > 1 or bool((embedding.weights == 1).all())


def context(limit: int) -> Context:
    splits = synthetic(60, 40, 900).split(seed=0)
    return Context(splits, Config(method="legcf", dim=8), RunOptions(quiet=True), (limit,))


def test_the_limit_says_how_many_vectors_there_are():
    here = context(280)
    made = Legcf().embedding(here, 280, Legcf().search(here).found[280])
    assert isinstance(made, ExpandedEmbedding)
    assert (len(made.meta), made.nnz) == (10, 280)  # (280 - 2 * 100) / 8
    one = Legcf(choices=1)
    assert one.embedding(here, 280, one.search(here).found[280]).nnz == 280  # 280 / 8 = 35 rows


def test_what_cannot_be_is_refused():
    with pytest.raises(BudgetError, match="make 216, the smallest possible budget; choices=1"):
        Legcf().search(context(215))
    with pytest.raises(ConfigError, match="1 <= choices <= 5 rows"):
        ExpandedEmbedding(TRAIN, DIM, clusters=CLUSTERS, rows=5, choices=6)
