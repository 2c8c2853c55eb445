from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.assignment import repeated_search
from cerp.assignment.nearest_rows import nearest_rows, row_scores
from cerp.assignment.repeated_search import RepeatedSearch

STEP = 2.0**-8


def on_coarse_grid(values: np.ndarray) -> torch.Tensor:
    """Few places, so that points tie often."""
    return torch.from_numpy(np.round(values / STEP) * STEP).float()


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 30), st.sampled_from([2.0**-8, 0.1, 3.0]))
def test_a_repeated_search_finds_what_a_plain_one_does(seed: int, rows: int, spread: float):
    rng = np.random.default_rng(seed)
    points = on_coarse_grid(rng.normal(0, spread, (150, 3)))
    book = points[rng.integers(150, size=rows)].clone()  # rows may be equal: ties
    search = RepeatedSearch(points)
    for _ in range(6):
        expected = torch.cdist(points.double(), book.double()).square().mul(2**20).round()
        assert torch.equal(search.nearest(book), expected.argmin(dim=1))
        book = book.clone()
        moved = torch.from_numpy(rng.random(rows) < rng.random())
        book[moved] += on_coarse_grid(rng.normal(0, spread / 3, (int(moved.sum()), 3)))


def test_only_rows_that_moved_are_tried_again(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    points = on_coarse_grid(rng.normal(0, 1, (500, 8)))
    book = points[:40].clone()
    search = RepeatedSearch(points)
    search.nearest(book)
    tried: list[int] = []

    def counted(points: torch.Tensor, book: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        tried.append(len(book))
        return row_scores(points, book, *rest)

    monkeypatch.setattr(repeated_search, "row_scores", counted)
    moved = book.clone()
    moved[[3, 17]] += 0.25
    assert torch.equal(search.nearest(moved), nearest_rows(points, moved))
    assert tried == [2]
    assert torch.equal(search.nearest(moved), nearest_rows(points, moved))
    assert tried == [2]  # nothing moved, nothing is tried


def test_the_rows_found_are_the_callers_to_change():
    points = on_coarse_grid(np.random.default_rng(1).normal(0, 1, (50, 4)))
    search = RepeatedSearch(points)
    found = search.nearest(points[:5])
    found[:] = -1
    assert torch.equal(search.nearest(points[:5]), nearest_rows(points, points[:5]))
