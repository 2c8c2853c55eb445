"""Communities of small graphs, beside networkx and by hand."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from cerp.assignment import communities as inner
from cerp.assignment.communities import as_many_communities, communities, modularity
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError


def planted(groups: int, size: int, *, noise: int = 0, seed: int = 0) -> Interactions:
    """Groups of users who took most items of their own group, and some pairs at random."""
    rng = np.random.default_rng(seed)
    users, items = np.meshgrid(np.arange(groups * size), np.arange(groups * size), indexing="ij")
    same = (users // size == items // size) & (rng.random(users.shape) < 0.8)
    same.flat[rng.choice(same.size, noise, replace=False)] = True
    sides = {"users": Ids.range(groups * size), "items": Ids.range(groups * size)}
    return Interactions.from_codes(users[same], items[same], **sides)


def as_graph(train: Interactions) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(train.num_users + train.num_items))
    graph.add_edges_from(
        zip(train.user.tolist(), (train.item + train.num_users).tolist(), strict=True)
    )
    return graph


def as_sets(label: np.ndarray) -> list[set[int]]:
    return [set(np.flatnonzero(label == one).tolist()) for one in range(int(label.max()) + 1)]


def test_planted_groups_are_found():
    label = communities(planted(5, 12, noise=40))
    expected = np.tile(np.arange(60) // 12, 2)
    pairs = {(int(one), int(other)) for one, other in zip(label, expected, strict=True)}
    assert len(pairs) == 5


def test_modularity_worked_out_on_paper():
    # Two pairs that are two components: 1/2 + 1/2 - (2/4)² - (2/4)².
    sides = {"users": Ids.range(2), "items": Ids.range(2)}
    train = Interactions.from_codes([0, 1], [0, 1], **sides)
    assert modularity(train, np.array([0, 1, 0, 1], dtype=np.int32)) == 0.5
    assert modularity(train, np.zeros(4, dtype=np.int32)) == 0
    assert modularity(train, np.array([0, 1, 0, 1], dtype=np.int32), resolution=2.0) == 0


@pytest.mark.parametrize("resolution", [0.5, 1.0, 3.0])
def test_modularity_is_that_of_networkx_and_as_high(resolution: float):
    train = synthetic(120, 80, 1500).split(seed=0).train
    graph = as_graph(train)
    label = communities(train, resolution=resolution)
    mine = modularity(train, label, resolution)
    by_networkx = nx.community.modularity(graph, as_sets(label), resolution=resolution)
    assert mine == pytest.approx(by_networkx)
    theirs = nx.community.louvain_communities(graph, resolution=resolution, seed=0)
    best = nx.community.modularity(graph, theirs, resolution=resolution)
    assert mine > 0.9 * best


def test_a_graph_of_communities_has_their_modularity():
    train = synthetic(120, 80, 1500).split(seed=0).train
    graph = inner._graph(train, np.arange(200))
    fine = np.random.default_rng(0).integers(0, 30, 200)
    coarse = np.arange(30) // 3
    joined = graph.joined(fine)
    for resolution in (0.5, 2.0):
        expected = nx.community.modularity(
            as_graph(train), as_sets(coarse[fine]), resolution=resolution
        )
        assert joined.modularity(coarse, resolution) == pytest.approx(expected)
    assert not joined.edges.diagonal().any()
    assert joined.inside.sum() + joined.edges.data.sum() / 2 == len(train)


def test_nodes_want_to_stay_where_every_other_community_costs_them():
    graph = inner._graph(planted(2, 3), np.arange(12))
    alone = np.arange(12)
    assert (inner._wanted(graph, alone, 1e5) == alone).all()
    assert (inner._wanted(graph, alone, 0.1) != alone).all()


def test_there_are_as_many_as_asked_for_and_every_number_is_one_of_them():
    train = planted(6, 10, noise=60)
    for count in (1, 3, 6, 20, 119):
        label = as_many_communities(train, count)
        assert set(label.tolist()) == set(range(count))
    sizes = np.bincount(as_many_communities(train, 20))
    assert (np.diff(sizes) <= 0).all()


def test_there_are_no_more_than_entities():
    label = as_many_communities(planted(2, 4), 1000)
    assert int(label.max()) < 16


def test_entities_without_interactions_are_one_community_the_last():
    sides = {"users": Ids.range(5), "items": Ids.range(5)}
    train = Interactions.from_codes([0, 0, 1, 1], [0, 1, 0, 1], **sides)
    label = as_many_communities(train, 2)
    assert label.tolist() == [0, 0, 1, 1, 1, 0, 0, 1, 1, 1]


def test_the_same_seed_gives_the_same_and_numbering_does_not_matter():
    train = planted(5, 12, noise=40)
    assert np.array_equal(communities(train, seed=3), communities(train, seed=3))
    renamed = np.random.default_rng(0).permutation(60)
    sides = {"users": train.users, "items": train.items}
    other = Interactions.from_codes(renamed[train.user], train.item, **sides)
    label = communities(other)
    assert np.array_equal(label[:60][renamed], communities(train)[:60])


def test_impossible_settings_are_refused():
    with pytest.raises(ConfigError, match="resolution"):
        communities(planted(2, 3), resolution=0)
    with pytest.raises(ConfigError, match="at least 1 community"):
        as_many_communities(planted(2, 3), 0)
