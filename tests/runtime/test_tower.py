"""The fast scores of a tower only preselect: lists are those of the exact ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp import cores
from cerp.runtime import tower_layers
from cerp.runtime.scoring import Excluded, best_of
from cerp.runtime.tower import TowerHead
from cerp.runtime.tower_layers import TowerLayers

NOTHING = Excluded(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


def tower(seed: int, num_items: int, dim: int = 6, scale: float = 1.0) -> TowerHead:
    """Random weights 2d-8-4-1 on random items, of which half are near copies of the others."""
    rng = np.random.default_rng(seed)
    weights = {}
    for number, (inputs, outputs) in enumerate(pairwise((2 * dim, 8, 4, 1))):
        name = "first" if number == 0 else f"rest.{number - 1}"
        weights[f"{name}.weight"] = rng.standard_normal((outputs, inputs)).astype(np.float32)
        weights[f"{name}.bias"] = rng.standard_normal(outputs).astype(np.float32)
    items = rng.standard_normal((num_items, dim)).astype(np.float32)
    items[num_items // 2 :] = items[: num_items - num_items // 2] * np.float32(1 + 1e-7)
    return TowerHead(np.float32(scale) * items, weights)


@given(st.integers(0, 10_000), st.integers(1, 400), st.integers(1, 12))
def test_lists_are_those_of_exact_scores(seed: int, num_items: int, k: int):
    head = tower(seed, num_items)
    vectors = np.random.default_rng(seed + 1).standard_normal((3, 6)).astype(np.float32)
    queries = head.queries(vectors)
    found = head.best(queries, k, NOTHING)
    expected = best_of(head.scores(queries, slice(None)), k, NOTHING)
    for row in range(3):
        mine, theirs = (slice(one.starts[row], one.ends[row]) for one in (found, expected))
        np.testing.assert_array_equal(found.columns[mine], expected.columns[theirs])
        np.testing.assert_array_equal(found.scores[mine], expected.scores[theirs])


@given(st.integers(0, 10_000), st.floats(1e-20, 1e20))
def test_fast_scores_are_off_by_no_more_than_the_margin(seed: int, scale: float):
    head = tower(seed, 60, scale=scale)
    vectors = np.random.default_rng(seed + 1).standard_normal((2, 6)).astype(np.float32)
    queries = head.queries(np.float32(scale) * vectors)
    shifts = head.estimates.shifts(queries)
    margin = head.estimates.margin(shifts)
    assert margin is not None
    off = np.abs(head.estimates.scores(shifts) - head.scores(queries, slice(None)))
    assert (off.max(axis=1) <= margin).all()


@pytest.mark.parametrize("part", ["items", "weights"])
def test_a_tower_beyond_single_precision_is_scored_exactly(part: str):
    head = tower(0, 40, scale=1e38)
    queries = head.queries(np.zeros((1, 6), np.float32))
    if part == "weights":
        head.estimates.longest = 1.0
        head.rest[0].weight[:] = 1e39
    assert head.estimates.margin(head.estimates.shifts(queries)) is None


@given(
    seed=st.integers(0, 10_000),
    num_items=st.integers(1, 300),
    threads=st.integers(1, 4),
    spread=st.integers(1, 3000),
    block_bytes=st.integers(1, 4000),
)
def test_items_go_through_the_layers_alike_whatever_the_threads_blocks_and_products(
    seed: int, num_items: int, threads: int, spread: int, block_bytes: int
):
    rng = np.random.default_rng(seed)
    first = rng.integers(-9, 9, (num_items, 8)).astype(np.float32)
    weights = [rng.integers(-9, 9, shape).astype(np.float32) for shape in ((8, 4), (4, 3), (3, 1))]
    floors = [rng.integers(-9, 9, width).astype(np.float32) for width in (8, 4, 3)]
    expected = first
    for floor, weight in zip(floors, weights, strict=True):
        expected = np.maximum(expected, floor) @ weight  # exact: small whole numbers
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name in cores.TOLD_BY:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(cores, "available_cores", lambda: threads)
        monkeypatch.setattr(tower_layers, "SPREAD", spread)
        monkeypatch.setattr(tower_layers, "BLOCK_BYTES", block_bytes)
        found = TowerLayers(first, weights).through(floors)
    np.testing.assert_array_equal(found, expected[:, 0])
