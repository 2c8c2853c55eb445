"""Sorting on all cores is sorting, and what goes along stays beside its key."""

from __future__ import annotations

import numpy as np
import pytest

from cerp.data import sorting
from cerp.data.sorting import STRETCH, fits_beside, sort_on_cores, sort_with


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_all_cores_sort_as_one_does(cores: int, count: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sorting, "available_cores", lambda: cores)
    monkeypatch.setattr(sorting, "MANY", 2)
    values = np.random.default_rng(count).integers(-50, 50, count)
    expected = sorted(values.tolist())
    sort_on_cores(values)
    assert values.tolist() == expected


def test_equal_keys_are_sorted_by_the_value_beside_them():
    keys = np.array([3, 0, 3, 1])
    assert sort_with(keys, np.array([-5, 9, -7, 2])).tolist() == [9, 2, -7, -5]
    assert keys.tolist() == [0, 1, 3, 3]


def test_values_stay_beside_their_keys_over_stretches():
    rng = np.random.default_rng(0)
    count = 2 * STRETCH + 5
    keys, values = rng.permutation(count), rng.integers(-(10**9), 10**9, count)
    expected = values[np.argsort(keys)]
    assert np.array_equal(sort_with(keys, values), expected)
    assert np.array_equal(keys, np.arange(count))


def test_what_fits_is_63_bits_of_key_and_distance():
    span = np.array([-(2**30), 2**30 - 1])  # 2^31 - 1 apart: 31 bits
    assert fits_beside(2**32 - 1, span)
    assert not fits_beside(2**32, span)
    ends = np.array([-(2**63), 2**63 - 1])
    assert not fits_beside(0, ends)
    keys = np.array([2**32 - 1, 0])
    assert sort_with(keys, span).tolist() == [2**30 - 1, -(2**30)]
    assert keys.tolist() == [0, 2**32 - 1]


def test_nothing_is_sorted_with_nothing():
    none = np.array([], dtype=np.int64)
    assert fits_beside(10, none)
    assert sort_with(none.copy(), none).tolist() == []
