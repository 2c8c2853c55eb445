from __future__ import annotations

import pytest
import torch

from cerp.budget import Budget
from cerp.errors import BudgetError, ConfigError
from cerp.methods.lowrank import LowRankEmbedding
from embedding_contract import ALL_IDS, DIM, ENTITIES, EmbeddingContract, seeded


class TestLowRank(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> LowRankEmbedding:
        return LowRankEmbedding.for_limit(
            ENTITIES, DIM, 3 * (ENTITIES + DIM) + 5, padding_idx=padding_idx, generator=seeded(seed)
        )

    def fresh(self, padding_idx: int | None = None) -> LowRankEmbedding:
        return self.build(padding_idx, seed=99)


def test_vectors_are_rows_of_the_product_and_have_its_rank():
    table = TestLowRank().build()
    assert torch.equal(table.table(), table.rows @ table.matrix)
    assert torch.linalg.matrix_rank(table(ALL_IDS)) == 3


def test_the_count_is_that_of_both_factors():
    # 3 numbers for each of 23 entities, and 3 rows of 6.
    assert TestLowRank().build().cost() == (3 * 23 + 3 * 6, 3 * 23 + 3 * 6)


@pytest.mark.parametrize(("share", "rank"), [("90%", 12), ("95%", 6), ("99%", 1)])
def test_the_ranks_on_gowalla(share: str, rank: int):
    limit = Budget.parse(share).limit(70_839, 128)
    assert LowRankEmbedding.for_limit(70_839, 128, limit).rows.shape == (70_839, rank)


def test_a_rank_beyond_the_dimension_would_only_store_more():
    assert LowRankEmbedding.for_limit(ENTITIES, DIM, 10**6).rows.shape == (ENTITIES, DIM)


def test_vectors_start_as_spread_out_as_those_of_the_full_table():
    table = LowRankEmbedding(4000, 64, rank=9, generator=seeded())
    assert float(table.table().detach().std()) == pytest.approx(0.1, rel=0.1)


def test_a_limit_below_rank_one_is_refused():
    with pytest.raises(BudgetError, match="smallest possible budget is 29"):
        LowRankEmbedding.for_limit(ENTITIES, DIM, ENTITIES + DIM - 1)
    with pytest.raises(ConfigError, match="rank of at least 1, got 0"):
        LowRankEmbedding(ENTITIES, DIM, rank=0)
