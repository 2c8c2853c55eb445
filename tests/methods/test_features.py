from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from cerp.config import Config, RunOptions
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError
from cerp.methods.base import Context
from cerp.methods.features import FeatureEmbedding, Features
from cerp.training.search_result import Found
from embedding_contract import DIM, ENTITIES, EmbeddingContract, seeded

FEATURES = np.random.default_rng(0).normal(size=(ENTITIES, 4)).astype(np.float32)
NOTHING = Found({}, {})


class TestFeatures(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> FeatureEmbedding:
        return FeatureEmbedding(FEATURES, DIM, padding_idx, generator=seeded(seed))

    def fresh(self, padding_idx: int | None = None) -> FeatureEmbedding:
        return FeatureEmbedding(0 * FEATURES, DIM, padding_idx, generator=seeded(99))


def context(dim: int = 8) -> Context:
    splits = synthetic(60, 40, 900).split(seed=0)
    return Context(splits, Config(method="features", dim=dim), RunOptions(), (5 * dim,))


def test_only_the_matrix_is_stored_and_learns():
    embedding = TestFeatures().build()
    assert embedding.cost() == (4 * DIM, 4 * DIM)
    assert [name for name, _ in embedding.named_parameters()] == ["matrix"]
    assert torch.equal(embedding.table(), torch.from_numpy(FEATURES) @ embedding.matrix)


def test_features_span_the_leading_singular_vectors_of_the_damped_graph():
    made = Features().embedding(context(), 43, NOTHING)
    assert isinstance(made, FeatureEmbedding)
    assert made.features.shape == (100, 5)
    assert np.allclose(np.linalg.norm(made.features.numpy(), axis=1), 1, atol=1e-5)
    train = context().splits.train
    users, items = np.diff(train.user_offsets), train.item_counts
    left = 1 / np.sqrt(users + users.mean())
    right = 1 / np.sqrt(items + items.mean())
    weight = left[train.user] * right[train.item]
    graph = csr_array((weight, (train.user, train.item)), shape=(60, 40))
    _, values, transposed = svds(graph, k=5)
    expected = transposed.T * (items * right)[:, None]
    expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    # Signs and order of the triples are free: the products of all pairs are not.
    own = made.features.numpy()[60:]
    assert np.allclose(own @ own.T, expected @ expected.T, atol=1e-3)
    assert len(values) == 5


def test_there_are_no_more_features_than_asked_for():
    made = Features(most=3).embedding(context(), 10**6, NOTHING)
    assert made.nnz == 3 * 8
    assert Features(most=3).placeholder(context(), 10**6).nnz == 3 * 8


def test_a_limit_below_one_feature_is_refused():
    with pytest.raises(BudgetError, match="has 8 for each feature"):
        Features().embedding(context(), 7, NOTHING)
