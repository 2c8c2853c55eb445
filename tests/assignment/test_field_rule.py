"""How codes are laid out for a budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.assignment.field_rule import Layout, layout_of_bytes, layout_of_values


def test_values_and_bits_of_a_layout():
    layout = Layout(groups=2, books=3, rows=5, columns=8)
    assert layout.values == 2 * 3 * 5 * 4  # each of 2 groups: 3 books of 5 rows of 4 columns
    assert layout.bits == 2 * 3 * 3  # 5 rows are told apart by 3 bits
    assert layout.bytes(100) == 120 + 2 * 30 + 225  # values, scales of 30 rows, 1,800 bits


def test_fewer_values_take_more_groups():
    assert layout_of_values(512, 3000, 16) == Layout(4, 4, 8, 16)
    assert layout_of_values(64, 3000, 16) == Layout(16, 1, 4, 16)
    assert layout_of_values(31, 3000, 16) is None  # two rows of 16 are 32 values


@given(st.integers(1, 5000), st.integers(1, 10_000), st.sampled_from([1, 4, 6, 16]))
def test_a_layout_stays_within_its_limit(limit: int, ids: int, columns: int):
    layout = layout_of_values(limit, ids, columns)
    assert layout is None or (layout.values <= limit and layout.bits <= 3 * columns)
    layout = layout_of_bytes(limit, ids, columns)
    assert layout is None or layout.bytes(ids) <= limit


@pytest.mark.parametrize("limit", [200, 2000, 20_000])
def test_more_bytes_tell_more_vectors_apart(limit: int):
    smaller, larger = (layout_of_bytes(size, 1000, 8) for size in (limit, 2 * limit))
    assert smaller is None or smaller.choices < larger.choices
