"""Sorting on all cores is sorting; counting in stretches is counting."""

from __future__ import annotations

import numpy as np
import pytest

from cerp.data import sorting
from cerp.data.sorting import counts_of, sort_on_cores, user_stretches


@pytest.mark.parametrize("cores", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_all_cores_sort_as_one_does(cores: int, count: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sorting, "allowed_threads", lambda: cores)
    monkeypatch.setattr(sorting, "MANY", 2)
    values = np.random.default_rng(count).integers(-50, 50, count)
    expected = sorted(values.tolist())
    sort_on_cores(values)
    assert values.tolist() == expected


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_codes_are_counted_over_stretches(rows: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sorting, "LONG_STRETCH", 2)
    codes = np.array([2, 0, 2, 2, 1, 0, 2], dtype=np.int32)[:rows]
    expected = [codes.tolist().count(code) for code in range(4)]
    assert counts_of(codes, 4).tolist() == expected


def test_users_come_in_stretches_of_rows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sorting, "STRETCH", 4)
    counts = [0, 2, 2, 1, 9, 0, 0, 3, 1, 0]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    assert list(user_stretches(offsets)) == [(0, 3), (3, 4), (4, 5), (5, 10)]
    assert list(user_stretches(np.zeros(1, dtype=np.int64))) == []
