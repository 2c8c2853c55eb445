"""Columns through the layers one by one: what `cerp.runtime.propagation` makes of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from cerp.artifact import Seen
from cerp.runtime import column_steps
from cerp.runtime.column_steps import ColumnSteps
from cerp.runtime.propagation import Propagation

USERS, ITEMS = 12, 30


def graph(seed: int, share: float = 0.3) -> Seen:
    """Random edges; one user and one item are without."""
    edges = np.random.default_rng(seed).random((USERS, ITEMS)) < share
    edges[3], edges[:, 5] = False, False
    offsets = np.concatenate([[0], np.cumsum(edges.sum(axis=1))])
    return Seen(offsets, np.nonzero(edges)[1].astype(np.int32))


def both_ways(seed: int, layers: int) -> tuple[ColumnSteps, Propagation]:
    seen = graph(seed)
    return ColumnSteps(seen, ITEMS, layers), Propagation(seen, ITEMS, layers)


def column(seed: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(USERS + ITEMS)


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_the_part_of_items_is_that_of_the_whole(layers: int):
    steps, whole = both_ways(layers, layers)
    x = column(layers)
    expected = whole.through(x[:, None].copy())[USERS:, 0]
    np.testing.assert_allclose(steps.of_items(x[:USERS], x[USERS:]), expected, rtol=1e-12)


@pytest.mark.parametrize("few_edges", [0.0, 1.0])
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_what_leads_from_a_node_is_the_column_of_its_unit(
    layers: int, few_edges: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(column_steps, "FEW_EDGES", few_edges)  # none, or all, are looked up
    steps, whole = both_ways(layers, layers)
    units = whole.through(np.eye(USERS + ITEMS))
    for node in range(USERS + ITEMS):
        np.testing.assert_allclose(steps.from_node(node), units[:, node], rtol=1e-12)


@pytest.mark.parametrize("layers", [1, 4])
def test_as_defined_is_so_to_the_bit(layers: int):
    steps, whole = both_ways(layers, layers)
    x = column(layers)
    assert steps.as_defined(x).tobytes() == whole.through(x[:, None].copy())[:, 0].tobytes()


def test_a_graph_without_edges_leaves_the_share_of_the_first_layer():
    steps = ColumnSteps(Seen(np.zeros(USERS + 1, np.int64), np.zeros(0, np.int32)), ITEMS, 3)
    x = column(0)
    assert np.array_equal(steps.of_items(x[:USERS], x[USERS:]), x[USERS:] / 4)
    assert np.array_equal(steps.as_defined(x), x / 4)


def test_the_longest_sums_are_counted_by_kind():
    # User 0 has items 0, 1, 2; user 1 has item 0: at most 3 terms at a user, 2 at an item.
    seen = Seen(np.array([0, 3, 4]), np.array([0, 1, 2, 0], dtype=np.int32))
    assert ColumnSteps(seen, 3, 3).most_sums == 3 + 2 + 3
