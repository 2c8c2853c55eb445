from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cerp.assignment.hashing import Hash, smallest_bucket_count
from cerp.choices import Hashing
from cerp.errors import ConfigError

GOWALLA = 70_839


@st.composite
def hashes(draw: st.DrawFn, names: tuple[Hashing, ...]) -> Hash:
    positions = draw(st.integers(1, 3000))
    buckets = draw(st.integers(smallest_bucket_count(positions), positions))
    return Hash(draw(st.sampled_from(names)), positions, buckets)


def rows(hash_: Hash) -> tuple[torch.Tensor, torch.Tensor]:
    return hash_(torch.arange(hash_.num_positions))


@given(hashes(("balanced", "paper", "quotient-remainder")))
def test_no_two_positions_share_both_rows(hash_: Hash):
    pairs = set(zip(*(row.tolist() for row in rows(hash_)), strict=True))
    assert len(pairs) == hash_.num_positions


@given(hashes(("balanced", "paper", "quotient-remainder")))
def test_rows_lie_within_their_codebooks(hash_: Hash):
    for row, count in zip(rows(hash_), hash_.rows, strict=True):
        assert row.min() >= 0
        assert row.max() < count


@given(hashes(("balanced", "paper")))
def test_no_row_is_used_more_than_its_share(hash_: Hash):
    for row in rows(hash_):
        assert torch.bincount(row).max() <= -(-hash_.num_positions // hash_.buckets)


@given(st.integers(1, 3000), st.data())
def test_balanced_uses_every_row(positions: int, data: st.DataObject):
    buckets = data.draw(st.integers(smallest_bucket_count(positions), positions))
    for row in rows(Hash("balanced", positions, buckets)):
        assert len(row.unique()) == buckets


def test_the_papers_divisor_leaves_277_of_5000_rows_unused_on_gowalla():
    _, row_q = rows(Hash("paper", GOWALLA, 5000))
    assert 5000 - len(row_q.unique()) == 277


def test_quotient_remainder_has_twice_the_remainders_and_few_quotients():
    assert Hash("quotient-remainder", GOWALLA, 5000).rows == (10_000, 8)


def test_formulas_by_hand():
    k = torch.tensor([0, 4, 5, 9])  # N = 10, b = 4, ⌈N/b⌉ = 3
    assert [row.tolist() for row in Hash("balanced", 10, 4)(k)] == [[0, 0, 1, 1], [0, 1, 2, 3]]
    assert [row.tolist() for row in Hash("paper", 10, 4)(k)] == [[0, 0, 1, 1], [0, 1, 1, 3]]
    imbalanced = Hash("quotient-remainder", 10, 4)
    assert [row.tolist() for row in imbalanced(k)] == [[0, 4, 5, 1], [0, 0, 0, 1]]


def test_large_tables_do_not_overflow_32_bits():
    positions, buckets = 30_330_000, 2_000_000
    last = torch.tensor([positions - 1], dtype=torch.int32)
    row_p, row_q = Hash("balanced", positions, buckets)(last)
    assert (row_p.item(), row_q.item()) == (329_999, 1_999_999)  # 30,329,999 = 15 b + 329,999


def test_more_buckets_than_entities_are_refused_with_a_count_that_makes_sense():
    assert Hash("balanced", 200, 200).rows == (200, 200)
    with pytest.raises(ConfigError, match=r"201 buckets for 200 entities: .* at most 100"):
        Hash("balanced", 200, 201)


def test_too_few_buckets_are_refused_with_the_smallest_count():
    with pytest.raises(ConfigError, match=r"266 buckets cannot tell 70,839 .* is 267"):
        Hash("balanced", GOWALLA, 266)
    assert Hash("balanced", GOWALLA, 267).rows == (267, 267)


@given(st.integers(1, 10**12))
def test_smallest_bucket_count_is_the_smallest_that_works(positions: int):
    smallest = smallest_bucket_count(positions)
    assert -(-positions // smallest) <= smallest
    assert smallest == 1 or -(-positions // (smallest - 1)) > smallest - 1


@pytest.mark.parametrize(("positions", "buckets"), [(0, 5), (5, 0), (5, -2)])
def test_nothing_to_hash_is_refused(positions: int, buckets: int):
    with pytest.raises(ConfigError, match="at least 1 entity and 1 bucket"):
        Hash("balanced", positions, buckets)


def test_an_unknown_hash_is_refused_with_the_names():
    with pytest.raises(ConfigError, match="balanced, paper, quotient-remainder"):
        Hash("double", 10, 5)
