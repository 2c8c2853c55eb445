from __future__ import annotations

import numpy as np
import pytest
import torch

from cerp.budget import Budget
from cerp.config import Config, RunOptions, TrainConfig
from cerp.data.synthetic import synthetic
from cerp.errors import BudgetError, ConfigError
from cerp.methods.base import Context
from cerp.methods.cce.embedding import ClusteredEmbedding
from cerp.methods.cce.method import Cce
from cerp.runs.fit import fit_all
from cerp.training.search_result import Found
from embedding_contract import DIM, ENTITIES, EmbeddingContract, seeded


class TestClustered(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> ClusteredEmbedding:
        return ClusteredEmbedding(
            ENTITIES, DIM, padding_idx, rows=4, chunks=3, generator=seeded(seed)
        )

    def fresh(self, padding_idx: int | None = None) -> ClusteredEmbedding:
        return self.build(padding_idx, seed=99)


def books(embedding: ClusteredEmbedding) -> torch.Tensor:
    return embedding.weight.detach().reshape(2 * embedding.chunks, -1, embedding.embedding_dim)


def codes(embedding: ClusteredEmbedding) -> np.ndarray:
    assert embedding.codes is not None
    return embedding.codes.numpy()


@pytest.mark.parametrize(("share", "rows"), [("90%", 3541), ("95%", 1770), ("99%", 354)])
def test_the_rows_on_gowalla(share: str, rows: int):
    limit = Budget.parse(share).limit(70_839, 128)
    embedding = ClusteredEmbedding.for_limit(70_839, 128, limit)
    assert embedding.book_rows[0] == rows
    assert embedding.cost() == (2 * rows * 128, 2 * rows * 128)


def test_a_chunk_is_the_sum_of_two_rows_of_its_own_tables():
    embedding = TestClustered().build()
    tables, chosen = books(embedding).numpy(), codes(embedding)
    vector = embedding(torch.tensor([7]))[0].detach().numpy()
    for chunk, own in enumerate((slice(0, 2), slice(2, 4), slice(4, 6))):
        clustered, drawn = chosen[7, 2 * chunk : 2 * chunk + 2]
        expected = tables[2 * chunk, clustered, own] + tables[2 * chunk + 1, drawn, own]
        assert np.allclose(vector[own], expected)


def test_vectors_stay_as_they_are_where_there_are_rows_enough():
    embedding = ClusteredEmbedding(ENTITIES, DIM, rows=ENTITIES, chunks=2, generator=seeded())
    before = embedding.table().detach().clone()
    embedding.cluster(seed=1)
    torch.testing.assert_close(embedding.table(), before, atol=1e-4, rtol=1e-3)


def test_clusters_rebuild_vectors_better_than_drawn_rows():
    embedding = ClusteredEmbedding(200, DIM, rows=12, chunks=2, generator=seeded())
    torch.nn.init.normal_(embedding.weight.data, generator=seeded(1))
    before = embedding.table().detach().clone()
    embedding.cluster(seed=1)
    lost = (embedding.table() - before).square().sum()
    rng = np.random.default_rng(0)
    by_chance = 0.0
    for own in embedding.columns():
        part, drawn = before[:, own].numpy(), rng.integers(0, 12, 200)
        means = np.stack([part[drawn == row].mean(axis=0) for row in range(12)])
        by_chance += float(np.square(part - means[drawn]).sum())
    assert lost < by_chance


def test_what_clusters_leave_over_is_gone_on_average_in_every_row_that_is_drawn():
    embedding = ClusteredEmbedding(200, DIM, rows=12, chunks=2, generator=seeded())
    before = embedding.table().detach().clone()
    embedding.cluster(seed=1)
    left = (before - embedding.table()).detach().numpy()
    for chunk, own in enumerate(embedding.columns()):
        for row in range(12):
            members = codes(embedding)[:, 2 * chunk + 1] == row
            if members.any():
                assert np.allclose(left[members, own].mean(axis=0), 0, atol=1e-5)


def test_rows_that_nobody_has_are_zero_and_nothing_is_undefined():
    embedding = ClusteredEmbedding(3, DIM, rows=40, chunks=2, generator=seeded())
    embedding.cluster(seed=0)
    assert embedding.weight.isfinite().all()
    assert codes(embedding).min() >= 0
    assert codes(embedding).max() < 40
    drawn = books(embedding)[1]
    unused = np.setdiff1d(np.arange(40), codes(embedding)[:, 1])
    assert drawn[unused].count_nonzero() == 0


def test_the_file_has_clusters_as_codes_and_the_rest_as_a_hash():
    embedding = TestClustered().build()
    embedding.cluster(seed=3)
    places = np.arange(ENTITIES)
    kinds = []
    for book, table in enumerate(embedding.stored().tables):
        kinds.append(table.index.kind)
        assert np.array_equal(table.index.rows(places, ENTITIES), codes(embedding)[:, book])
    assert kinds == ["coded", "hashed"] * 3


def test_rows_are_clustered_between_epochs_through_three_quarters_of_them(
    monkeypatch: pytest.MonkeyPatch,
):
    seen: list[int] = []
    monkeypatch.setattr(ClusteredEmbedding, "cluster", lambda self, seed: seen.append(seed))
    splits = synthetic(40, 30, 400).split(seed=0)
    training = TrainConfig(epochs=8, evaluate_every=8, batch_size=128)
    config = Config(method="cce", backbone="mf", dim=8, budgets=("50%",), train=training)
    fit_all(splits, config, RunOptions(quiet=True))
    assert seen == [1000 + epoch for epoch in range(1, 7)]


def test_what_cannot_be_is_refused():
    with pytest.raises(BudgetError, match="smallest possible budget, has 12"):
        ClusteredEmbedding.for_limit(ENTITIES, DIM, 2 * DIM - 1)
    with pytest.raises(ConfigError, match="1 to 6 chunks, got 4 rows and 7 chunks"):
        ClusteredEmbedding(ENTITIES, DIM, rows=4, chunks=7)
    here = Context(
        synthetic(40, 30, 400).split(seed=0), Config(dim=8), RunOptions(quiet=True), (64,)
    )
    assert Cce(chunks=2).embedding(here, 64, Found({}, {})).nnz == 64
