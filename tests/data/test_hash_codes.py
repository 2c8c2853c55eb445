"""Codes by hash: numbered by first appearance, also where hashes share a slot."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cerp.data.formats.hash_codes import STRETCH, codes_of, numbered
from cerp.data.ids import Ids


def hashes(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def test_hashes_are_numbered_by_first_appearance():
    assert codes_of(hashes([2**63, 5, 2**64 - 1, 5, 2**63])).tolist() == [0, 1, 2, 1, 0]
    assert codes_of(hashes([])).tolist() == []


def test_hashes_of_one_slot_stay_apart():
    # Slots are told by the first bits, which all of these share.
    assert codes_of(hashes([7, 3, 7, 1, 3, 0])).tolist() == [0, 1, 0, 2, 1, 3]


@given(st.lists(st.integers(0, 5) | st.integers(2**63, 2**63 + 5) | st.integers(0, 2**64 - 1)))
def test_codes_are_those_of_a_dictionary(values: list[int]):
    seen: dict[int, int] = {}
    expected = [seen.setdefault(value, len(seen)) for value in values]
    assert codes_of(hashes(values)).tolist() == expected


def test_codes_go_on_from_stretch_to_stretch():
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 2**64, 50_000, dtype=np.uint64)
    drawn = drawn[rng.integers(0, 50_000, 3 * STRETCH + 7)]
    _, expected = Ids.in_native_order([str(value) for value in drawn.tolist()])
    assert np.array_equal(codes_of(drawn), expected)
    codes, firsts = numbered(drawn)
    assert np.array_equal(codes, expected)
    assert np.array_equal(firsts, np.unique(expected, return_index=True)[1])
