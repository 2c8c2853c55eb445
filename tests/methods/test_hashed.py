from __future__ import annotations

import numpy as np
import pytest
import torch

from cerp.assignment.index import Index
from cerp.errors import ConfigError
from cerp.methods.hashed import HashedEmbedding
from embedding_contract import ALL_IDS, DIM, ENTITIES, EmbeddingContract, seeded


class TestHashed(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> HashedEmbedding:
        return HashedEmbedding.for_limit(
            ENTITIES, DIM, 5 * DIM + 5, padding_idx=padding_idx, generator=seeded(seed)
        )

    def fresh(self, padding_idx: int | None = None) -> HashedEmbedding:
        return self.build(padding_idx, seed=99)


def test_the_rows_are_those_of_the_file_format():
    table = HashedEmbedding(70_839, 1, rows=708, generator=seeded(3))
    factor, offset = table.coefficients.tolist()
    by_file = Index("hashed", 708, factor, offset).rows(np.arange(70_839), 70_839)
    assert np.array_equal(table.rows_of(torch.arange(70_839)).numpy(), by_file)
    assert 1 <= factor < 2**21
    assert 0 <= offset < 2**31 - 1


def test_rows_by_hand():
    table = HashedEmbedding(4, 1, rows=3)
    table.coefficients.copy_(torch.tensor([2**20, 2**31 - 3]))
    # (2^20 k + p - 2) mod p: p - 2, 2^20 - 2, 2^21 - 2, 3·2^20 - 2; p = 1, 2^20 = 1 (mod 3)
    assert table.rows_of(torch.arange(4)).tolist() == [2, 2, 0, 1]


def test_entities_are_spread_over_all_rows():
    table = HashedEmbedding(10_000, 1, rows=100, generator=seeded())
    counts = torch.bincount(table.rows_of(torch.arange(10_000)), minlength=100)
    assert counts.min() > 50
    assert counts.max() < 200


def test_entities_share_a_vector_just_where_they_share_a_row():
    table = TestHashed().build()
    rows, vectors = table.rows_of(ALL_IDS), table.table()
    same_vector = (vectors[:, None] == vectors).all(dim=2)
    assert torch.equal(same_vector, rows[:, None] == rows)


def test_the_gradient_of_a_row_is_the_sum_over_its_entities():
    table = TestHashed().build()
    table.table().sum().backward()
    counts = torch.bincount(table.rows_of(ALL_IDS), minlength=5).float()
    assert torch.equal(table.weight.grad, counts[:, None].expand(5, DIM))


@pytest.mark.parametrize(("limit", "rows"), [(DIM, 1), (4 * DIM - 1, 3), (10**6, ENTITIES)])
def test_the_limit_gives_whole_rows(limit: int, rows: int):
    table = HashedEmbedding.for_limit(ENTITIES, DIM, limit, generator=seeded())
    assert len(table.weight) == rows
    assert table.cost() == (rows * DIM, rows * DIM)


def test_a_limit_below_one_row_is_refused():
    with pytest.raises(ConfigError, match="smallest possible budget, has 6"):
        HashedEmbedding.for_limit(ENTITIES, DIM, DIM - 1)
