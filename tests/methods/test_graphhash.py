from __future__ import annotations

import numpy as np
import pytest
import torch

from cerp.config import Config, RunOptions
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError
from cerp.methods.base import Context
from cerp.methods.graphhash import GraphHash
from cerp.models.embeddings.compositional import CompositionalEmbedding
from embedding_contract import DIM, ENTITIES, EmbeddingContract, seeded

COMMUNITIES = np.arange(ENTITIES) % 5


def context(limit: int) -> Context:
    splits = synthetic(60, 40, 900).split(seed=0)
    config = Config(method="graphhash", dim=8)
    return Context(splits, config, RunOptions(quiet=True), (limit,))


class TestOneBook(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> CompositionalEmbedding:
        return CompositionalEmbedding(
            ENTITIES, DIM, padding_idx, codes=COMMUNITIES[:, None], generator=seeded(seed)
        )

    def fresh(self, padding_idx: int | None = None) -> CompositionalEmbedding:
        return self.build(padding_idx, seed=99)


def test_entities_share_a_vector_just_where_they_share_a_community():
    here = context(75)
    found = GraphHash().search(here).found[75]
    assert found.facts["communities"] == 9
    vectors = GraphHash().embedding(here, 75, found).table()
    label = found.tensors["communities"]
    same_vector = (vectors[:, None] == vectors).all(dim=2)
    assert torch.equal(same_vector, label[:, None] == label)


def test_rows_are_what_counts_and_the_file_holds_the_communities():
    here = context(75)
    embedding = GraphHash().embedding(here, 75, GraphHash().search(here).found[75])
    assert embedding.cost() == (72, 72)
    [table] = embedding.stored().tables
    assert (table.index.kind, table.index.size) == ("coded", 9)
    assert GraphHash().placeholder(here, 75).cost() == (72, 72)


def test_a_limit_below_one_row_is_refused():
    with pytest.raises(BudgetError, match="possible budget, has 8"):
        GraphHash().search(context(7))
