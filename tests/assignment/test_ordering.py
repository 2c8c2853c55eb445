from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.assignment import ordering
from cerp.assignment.ordering import ORDERINGS, order
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError

SAFE = ["spectral", "degree", "shuffled"]


def cliques(count: int, size: int, seed: int) -> Interactions:
    """Blocks of users who share most of a block of items; ids are drawn at random."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(count * size), size)
    item = user // size * size + np.tile(np.arange(size), count * size)
    keep = rng.random(len(user)) < 0.8
    ids = {"users": Ids.range(count * size), "items": Ids.range(count * size)}
    user, item = (
        rng.permutation(count * size)[user[keep]],
        rng.permutation(count * size)[item[keep]],
    )
    return Interactions.from_codes(user, item, **ids)


def renumbered(data: Interactions, users: np.ndarray, items: np.ndarray) -> Interactions:
    return Interactions.from_codes(
        users[data.user], items[data.item], users=data.users, items=data.items
    )


@pytest.mark.parametrize("name", list(ORDERINGS))
def test_positions_are_a_permutation_of_all_entities(name: str):
    data = synthetic(60, 40, 500)
    assert sorted(order(data, name).tolist()) == list(range(100))


@pytest.mark.parametrize("name", list(ORDERINGS))
def test_the_same_seed_gives_the_same_order(name: str):
    data = synthetic(60, 40, 500)
    assert np.array_equal(order(data, name, seed=3), order(data, name, seed=3))


@pytest.mark.parametrize("name", SAFE)
def test_how_many_edges_are_gone_through_together_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    data = synthetic(60, 40, 500)
    at_once = order(data, name)
    monkeypatch.setattr(ordering, "STRETCH", 7)
    assert np.array_equal(order(data, name), at_once)


@pytest.mark.parametrize("name", SAFE)
def test_renumbering_the_raw_ids_changes_nothing(name: str):
    # More items than the block of the subspace iteration, so that its random start matters.
    data = synthetic(500, 400, 8000)
    rng = np.random.default_rng(1)
    users, items = rng.permutation(500), rng.permutation(400)
    before = order(data, name, seed=5)
    after = order(renumbered(data, users, items), name, seed=5)
    moved = np.concatenate([after[:500][users], after[500:][items]])
    assert np.array_equal(moved, before)


@pytest.mark.parametrize("name", SAFE)
def test_validation_and_test_edges_change_nothing(name: str):
    splits = synthetic(100, 60, 1500).split(seed=0)
    swapped = Splits(splits.train, splits.test, splits.valid)
    assert np.array_equal(order(splits.train, name), order(swapped.train, name))
    # The whole input of an ordering is the training part: here it is, rebuilt from its edges.
    alone = Interactions.from_codes(
        splits.train.user, splits.train.item, users=Ids.range(100), items=Ids.range(60)
    )
    assert np.array_equal(order(splits.train, name), order(alone, name))


def test_spectral_neighbours_are_alike_where_shuffled_ones_are_not():
    data = cliques(count=16, size=12, seed=0)
    # 16 cliques of 12 users and 12 items: 24 positions hold a clique. By chance 12% are so near.
    side = data.num_users

    def share_in_block(name: str) -> float:
        position = order(data, name)
        near = np.abs(position[data.user] - position[side + data.item]) < 24
        return float(near.mean())

    assert share_in_block("spectral") > 0.75
    assert share_in_block("shuffled") < 0.25


def test_degree_puts_the_most_active_first():
    data = Interactions.from_codes(
        [0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 0], users=Ids.range(4), items=Ids.range(4)
    )
    # Degrees: users 3, 2, 1, 0 and items 3, 2, 1, 0.
    position = order(data, "degree")
    assert set(position[[0, 4]].tolist()) == {0, 1}
    assert set(position[[3, 7]].tolist()) == {6, 7}


def test_native_is_the_raw_numbering():
    assert order(synthetic(20, 10, 100), "native").tolist() == list(range(30))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_small_and_odd_graphs_are_ordered_too(pairs: list[tuple[int, int]]):
    user, item = zip(*pairs, strict=True)
    data = Interactions.from_codes(list(user), list(item), users=Ids.range(6), items=Ids.range(6))
    assert sorted(order(data, "spectral").tolist()) == list(range(12))


def test_an_unknown_ordering_lists_the_known():
    with pytest.raises(ConfigError, match="choose one of spectral, degree, shuffled, native"):
        order(synthetic(20, 10, 100), "alphabetical")
