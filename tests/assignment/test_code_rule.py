"""How many books, rows and dimensions learned codes have: known answers worked out in view."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.assignment.code_rule import book_rows, books_and_rows_of_bytes, vector_rank

GOWALLA, EDGES = 70_839, 719_081


@pytest.mark.parametrize(
    ("limit", "rows"),
    [
        # 5.6 · 90,673 / (8 · 128) = 495.9: spare twice and more, so the power of two below.
        (90_673, 256),
        # ρ = .05: 5.6 · .2^.75 = 1.675 entries for each kept; 1.675 · 453,369 / 1,024 = 741.5.
        (453_369, 742),
        # ρ = .1: 5.6 · .1^.75 = .996, but at least one: 906,739 / 1,024 = 885.5.
        (906_739, 885),
    ],
)
def test_rows_of_eight_books_on_gowalla(limit: int, rows: int):
    assert book_rows(limit, GOWALLA, 128, 8) == pytest.approx(rows, abs=1)


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        # K = 256: 32,768 values a book, and 4 times the codes' 70,839 bytes are more than that.
        (131_072, (4, 256)),
        (262_144, (8, 256)),
        # 40,000 / 32,768 = 1.2 books, so two, of 40,000 / 256 rows.
        (40_000, (2, 156)),
        # More than eight such books: eight with as many rows as there is room for.
        (524_288, (8, 512)),
    ],
)
def test_books_under_a_limit_in_bytes_on_gowalla(limit: int, found: tuple[int, int]):
    assert books_and_rows_of_bytes(limit, GOWALLA, 128) == found


def test_small_data_has_shorter_books_under_a_limit_in_bytes():
    # 2,625 entities of dimension 128. K = 64: 8,192 bytes of rows, four times the codes are
    # 4 · 2,625 · 6 / 8 = 7,875. 32 rows: 4,096 and 6,562. 17,000 / 4,096 = 4.2 books, so five, of
    # 17,000 / 640 rows.
    assert books_and_rows_of_bytes(17_000, 2_625, 128) == (5, 26)


def test_books_that_are_asked_for_are_had():
    assert books_and_rows_of_bytes(131_072, GOWALLA, 128, books=2) == (2, 512)


@pytest.mark.parametrize(
    ("entities", "rows"),
    [
        # 5.6 · 30.33 M · .01 / 8 = 212,310 rows; 2^39 / (30.33 M · 8) = 2,265.7: 2,048.
        (30_330_000, 2_048),
        # 21,231, and 2^39 / (3.033 M · 8) = 22,657 are more: 16,384 as without a bound.
        (3_033_000, 16_384),
    ],
)
def test_tens_of_millions_of_entities_have_fewer_rows(entities: int, rows: int):
    assert book_rows(entities * 128 // 100, entities, 128, 8) == rows


def test_tens_of_millions_of_entities_have_fewer_rows_under_a_limit_in_bytes():
    # 10^9 / (8 · 128) = 976,562 rows without the bound.
    assert books_and_rows_of_bytes(10**9, 30_330_000, 128) == (8, 2_265)


@pytest.mark.parametrize(
    ("entities", "interactions", "rank"),
    [
        # d̄ = 20.3: ½ · √719,081 · (20 / 20.3)^1.3 = 424 · .980.
        (GOWALLA, EDGES, 416),
        # ml-1m, d̄ = 123: ½ · √590,733 · (20 / 123.4)^1.3 = 384 · .094 = 36, and 64 at least.
        (9_571, 590_733, 64),
        # lastfm, d̄ = 20.2: ½ · √64,315 · .99.
        (6_381, 64_315, 125),
        # Sparse and large: ½ · √4,000,000 = 1,000, and 512 at most.
        (2_000_000, 4_000_000, 512),
    ],
)
def test_dimensions_of_the_vectors(entities: int, interactions: int, rank: int):
    assert vector_rank(entities, interactions) == pytest.approx(rank, abs=1)


@given(
    st.integers(2, 10**6), st.integers(16, 10**6), st.integers(1, 256), st.sampled_from([2, 4, 8])
)
def test_there_is_always_a_row_to_choose(limit: int, entities: int, dim: int, books: int):
    limit = min(limit, entities * dim)
    assert 2 <= book_rows(limit, entities, dim, books) <= max(2, entities // books)
    found, rows = books_and_rows_of_bytes(limit, entities, dim)
    assert 1 <= found <= 8
    assert rows >= 2
