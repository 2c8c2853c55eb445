from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cerp.budget import Budget
from cerp.errors import ConfigError, DataError
from cerp.methods.qr import Operation, QuotientRemainderEmbedding, remainder_count
from embedding_contract import ALL_IDS, DIM, ENTITIES, EmbeddingContract, seeded

ORDER = np.random.default_rng(0).permutation(ENTITIES)


class TestProduct(EmbeddingContract):
    operation: Operation = "mult"
    positions: np.ndarray | None = None

    def build(self, padding_idx: int | None = None, seed: int = 0) -> QuotientRemainderEmbedding:
        return QuotientRemainderEmbedding(
            ENTITIES,
            DIM,
            padding_idx,
            remainders=7,
            operation=self.operation,
            positions=self.positions,
            generator=seeded(seed),
        )

    def fresh(self, padding_idx: int | None = None) -> QuotientRemainderEmbedding:
        return QuotientRemainderEmbedding(
            ENTITIES, DIM, padding_idx, remainders=7, operation=self.operation
        )


class TestSum(TestProduct):
    operation = "add"


class TestConcatenation(TestProduct):
    operation = "concat"


class TestOrdered(TestProduct):
    positions = ORDER


def tables_of(embedding: QuotientRemainderEmbedding) -> tuple[np.ndarray, np.ndarray]:
    return embedding.remainder.detach().numpy(), embedding.quotient.detach().numpy()


@pytest.mark.parametrize(
    ("case", "combine"),
    [
        (TestProduct, np.multiply),
        (TestSum, np.add),
        (TestConcatenation, lambda r, q: np.concatenate([r, q])),
    ],
)
def test_vectors_are_those_of_the_definition(case: type[TestProduct], combine):
    embedding = case().build()
    remainder, quotient = tables_of(embedding)
    expected = np.stack([combine(remainder[k % 7], quotient[k // 7]) for k in range(ENTITIES)])
    np.testing.assert_array_equal(embedding(ALL_IDS).detach().numpy(), expected)


def test_all_pairs_of_rows_differ():
    embedding = QuotientRemainderEmbedding(70_839, 1, remainders=587)
    pairs = torch.stack(embedding.rows_of(torch.arange(70_839)), dim=1).numpy()
    assert len(np.unique(pairs, axis=0)) == 70_839
    assert len(embedding.quotient) == 121


def test_rows_of_large_ids_are_exact():
    # 2^24 + 1 has no float32: a division there would be rounded.
    embedding = QuotientRemainderEmbedding(2**24 + 2, 1, remainders=2**24 + 1)
    rows = embedding.rows_of(torch.tensor([2**24, 2**24 + 1]))
    assert [row.tolist() for row in rows] == [[2**24, 0], [0, 1]]


@pytest.mark.parametrize(
    ("entities", "share", "remainders", "quotients"),
    [
        (70_839, "90%", 7072, 11),
        (70_839, "95%", 3520, 21),
        (70_839, "99%", 587, 121),
        (116_198, "90%", 11_608, 11),
        (116_198, "95%", 5788, 21),
        (116_198, "99%", 1050, 111),
    ],
)
def test_the_rows_of_gowalla_and_yelp(entities: int, share: str, remainders: int, quotients: int):
    limit = Budget.parse(share).limit(entities, 128)
    embedding = QuotientRemainderEmbedding.for_limit(entities, 128, limit)
    assert (len(embedding.remainder), len(embedding.quotient)) == (remainders, quotients)
    assert embedding.cost() == ((remainders + quotients) * 128,) * 2


@given(st.integers(2, 60), st.integers(2, 5), st.sampled_from(["mult", "add", "concat"]), st.data())
def test_the_remainders_are_the_most_that_fit(
    entities: int, dim: int, operation: Operation, data: st.DataObject
):
    width_r, width_q = (dim, dim) if operation != "concat" else ((dim + 1) // 2, dim // 2)
    values = {m: m * width_r + -(-entities // m) * width_q for m in range(1, entities + 1)}
    limit = data.draw(st.integers(1, entities * dim))
    fitting = [m for m, count in values.items() if count <= limit]
    if fitting:
        assert remainder_count(limit, entities, dim, operation) == max(fitting)
    else:
        with pytest.raises(
            ConfigError, match=f"smallest possible budget is {min(values.values())}"
        ):
            remainder_count(limit, entities, dim, operation)


def test_the_gradient_of_a_factor_is_its_partner():
    embedding = TestProduct().build()
    embedding(torch.tensor(16)).sum().backward()  # 16 = 2 · 7 + 2
    assert torch.equal(embedding.remainder.grad[2], embedding.quotient[2])
    assert torch.equal(embedding.quotient.grad[2], embedding.remainder[2])
    assert embedding.remainder.grad.any(dim=1).sum() == 1


def test_positions_permute_the_table():
    plain, ordered = TestProduct().build(), TestOrdered().build()
    assert torch.equal(ordered.table(), plain.table()[ORDER])
    assert torch.equal(ordered(ALL_IDS), plain.table()[ORDER])


def test_products_start_with_a_standard_deviation_of_a_tenth():
    embedding = QuotientRemainderEmbedding(40_000, 64, remainders=200, generator=seeded())
    assert embedding.table().std().item() == pytest.approx(0.1, rel=0.05)
    assert embedding.table().mean().item() == pytest.approx(0, abs=0.01)


def test_sums_start_xavier_uniform():
    embedding = QuotientRemainderEmbedding(
        40_000, 50, remainders=250, operation="add", generator=seeded()
    )
    assert embedding.remainder.abs().max().item() == pytest.approx((6 / 300) ** 0.5, rel=1e-3)
    assert embedding.quotient.abs().max().item() == pytest.approx((6 / 210) ** 0.5, rel=1e-3)


def test_what_cannot_be_built_is_refused():
    with pytest.raises(ConfigError, match="no operation 'max'; choose one of mult, add, concat"):
        QuotientRemainderEmbedding(9, 4, remainders=3, operation="max")
    with pytest.raises(ConfigError, match="2 or more entries"):
        QuotientRemainderEmbedding(9, 1, remainders=3, operation="concat")
    with pytest.raises(ConfigError, match="at least 1 remainder"):
        QuotientRemainderEmbedding(9, 4, remainders=0)
    with pytest.raises(DataError, match=r"each of 0\.\.8 once"):
        QuotientRemainderEmbedding(9, 4, remainders=3, positions=np.zeros(9, dtype=int))
