from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.models.backbones import lightgcn
from cerp.models.backbones.lightgcn import LightGCN
from cerp.models.backbones.neighbourhoods import Neighbourhoods
from cerp.models.backbones.sampled_propagation import (
    InBlocks,
    keys_of,
    sampled_output,
    sampled_vectors,
)
from cerp.models.batch import Batch
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.full import FullEmbedding
from cerp.models.random_words import mixed

USERS, ITEMS, DIM, LAYERS = 12, 15, 6, 3
EVERYONE = torch.arange(USERS + ITEMS)
ALL = [ITEMS + USERS] * LAYERS
"""As many neighbours as anybody can have."""


def train() -> Interactions:
    """Users 10 and 11 and items 13 and 14 have no edges; item 0 has most users."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, USERS - 2, 60), rng.integers(0, ITEMS - 2, 60)
    user = np.concatenate([user, np.arange(8)])
    item = np.concatenate([item, np.zeros(8, dtype=np.int64)])
    return Interactions.from_codes(user, item, users=Ids.range(USERS), items=Ids.range(ITEMS))


def embedding() -> FullEmbedding:
    generator = torch.Generator().manual_seed(0)
    return FullEmbedding(USERS + ITEMS, DIM, generator=generator).double()


def propagated(table: Tensor) -> Tensor:
    """``1/(L+1) Σ Â^l E``, straight from the definition."""
    data = train()
    adjacency = torch.zeros(USERS + ITEMS, USERS + ITEMS, dtype=torch.float64)
    adjacency[torch.tensor(data.user).long(), torch.tensor(data.item).long() + USERS] = 1
    adjacency += adjacency.T.clone()
    degrees = adjacency.sum(dim=1).clamp(min=1)
    normalised = adjacency / (degrees[:, None] * degrees).sqrt()
    powers = [torch.linalg.matrix_power(normalised, power) for power in range(LAYERS + 1)]
    return torch.stack(powers).mean(dim=0) @ table


def test_neighbours_are_those_of_the_interactions():
    data, found = train(), Neighbourhoods(train())
    for user in range(USERS):
        mine = found.columns[found.offsets[user] : found.offsets[user + 1]]
        assert mine.tolist() == data.item[data.user == user].tolist()
    for item in range(ITEMS):
        at = USERS + item
        mine = found.columns[found.offsets[at] : found.offsets[at + 1]]
        assert mine.tolist() == data.user[data.item == item].tolist()


def test_with_all_neighbours_vectors_and_gradients_are_those_of_full_propagation():
    table, wanted = embedding(), torch.randn(USERS + ITEMS, DIM, dtype=torch.float64)
    expected = propagated(table.weight)
    found, own = sampled_vectors(
        Neighbourhoods(train()), table, EVERYONE, mixed(EVERYONE), most=ALL
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(own, table.weight, rtol=0, atol=0)
    gradients = [
        torch.autograd.grad((vectors * wanted).sum(), table.weight)[0]
        for vectors in (found, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


@pytest.mark.parametrize("state", ["dense", "pruning", "masked"])
def test_trees_of_rows_of_codebooks_are_those_of_vectors(state: str):
    books = CompositionalEmbedding(USERS + ITEMS, DIM, buckets=9).double()
    if state != "dense":
        books.start_pruning(scale=-1.0)
    if state == "masked":
        books.project(30)
    table = FullEmbedding(USERS + ITEMS, DIM).double()
    table.weight.data = books.table().detach()
    roots, wanted = EVERYONE.repeat(2), torch.randn(2 * len(EVERYONE), DIM, dtype=torch.float64)
    (mine, own), (theirs, looked_up) = (
        sampled_vectors(Neighbourhoods(train()), each, roots, mixed(roots), most=[3, 1, 1])
        for each in (books, table)
    )
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    torch.testing.assert_close(own, looked_up, rtol=0, atol=1e-12)
    (of_table,) = torch.autograd.grad((theirs * wanted).sum(), table.weight)
    learned = [one for one in (books.weight, books.threshold) if one is not None]
    gradients = torch.autograd.grad((mine * wanted).sum(), learned)
    expected = torch.autograd.grad((books.table() * of_table).sum(), learned)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-12)


def test_the_mean_over_trees_is_full_propagation():
    """4,000 trees of each entity: their mean is off by what their variance says, no more."""
    table, graph, count = embedding(), Neighbourhoods(train()), 4000
    expected = propagated(table.weight.detach())
    with torch.no_grad():
        roots = EVERYONE.repeat(count)
        keys = mixed(torch.arange(len(roots)))
        found, _ = sampled_vectors(graph, table, roots, keys, most=[2, 1, 1])
    found = found.view(count, USERS + ITEMS, DIM)
    error = (found.mean(dim=0) - expected).abs()
    assert (found.std(dim=0) > 0).sum() > 20 * DIM  # there is something to be wrong about
    assert (error <= 5 * found.std(dim=0) / count**0.5 + 1e-12).all()


def test_every_neighbour_is_drawn_equally_often():
    graph, count = Neighbourhoods(train()), 20_000
    entity = int(graph.degrees(EVERYONE).argmax())
    degree = int(graph.degrees(torch.tensor([entity])))
    for most in (1, 3, degree - 1):
        chosen = graph.chosen(torch.full((count,), entity), mixed(torch.arange(count)), most)
        drawn = torch.unique(chosen.entities, return_counts=True)[1]
        expected = count * most / degree
        assert len(drawn) == degree
        assert (drawn - expected).abs().max() < 5 * expected**0.5


def test_no_more_neighbours_are_chosen_than_there_are_or_are_wanted():
    graph = Neighbourhoods(train())
    chosen = graph.chosen(EVERYONE, mixed(EVERYONE), 3)
    assert chosen.counts.tolist() == graph.degrees(EVERYONE).clamp(max=3).tolist()
    assert chosen.parents.bincount(minlength=USERS + ITEMS).tolist() == chosen.counts.tolist()


def test_the_same_rows_have_the_same_trees_in_whatever_batch():
    """So that several processes, each with some rows, have the scores of one with all."""
    users, items = torch.arange(10), torch.arange(30).view(10, 3) % ITEMS
    batch = Batch(users, items[:, 0], items[:, 1:])
    graph, table = Neighbourhoods(train()), embedding()
    whole = sampled_output(graph, table, users, items, [2, 1, 1]).scores
    for rank in (0, 1):
        mine = Batch(*(part[users % 2 == rank] for part in batch))
        some = torch.cat([mine.positives[:, None], mine.negatives], dim=1)
        found = sampled_output(graph, table, mine.users, some, [2, 1, 1]).scores
        torch.testing.assert_close(found, whole[users % 2 == rank], rtol=0, atol=1e-15)


def test_another_negative_gives_all_of_a_row_other_trees():
    users, items = torch.tensor([3, 3]), torch.tensor([[1, 2], [1, 4]])
    keys = keys_of(users, items)
    assert len(torch.unique(keys)) == len(keys)


def test_a_penalty_sees_the_vectors_of_the_batch_before_propagation():
    users, items = torch.tensor([0, 1, 1]), torch.tensor([[2, 3], [4, 5], [2, 2]])
    table = embedding()
    vectors = sampled_output(Neighbourhoods(train()), table, users, items, [2, 1, 1]).vectors
    assert vectors is not None
    (block,), counts = vectors()
    torch.testing.assert_close(block, table(torch.cat([users, items.flatten() + USERS])))
    assert counts.tolist() == [1, 0.5, 0.5, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("columns", [1, 4, DIM])
@pytest.mark.parametrize("kind", ["full", "codebooks"])
def test_final_vectors_in_blocks_are_those_of_full_propagation(
    monkeypatch: pytest.MonkeyPatch, columns: int, kind: str
):
    from cerp.models.backbones import neighbourhoods, sampled_propagation

    monkeypatch.setattr(sampled_propagation, "BLOCK_BYTES", 0)
    monkeypatch.setattr(sampled_propagation, "LEAST_COLUMNS", columns)
    monkeypatch.setattr(neighbourhoods, "ROWS_AT_ONCE", 5)
    table: Embedding = embedding()
    if kind == "codebooks":
        table = CompositionalEmbedding(USERS + ITEMS, DIM, buckets=9).double()
    expected = propagated(table.table().detach())
    found = InBlocks(Neighbourhoods(train()), table, LAYERS)
    torch.testing.assert_close(found.item_vectors, expected[USERS:], rtol=0, atol=1e-12)
    some = torch.tensor([3, 11, 0, 3])
    torch.testing.assert_close(found.user_vectors(some), expected[some], rtol=0, atol=1e-12)


def test_the_backbone_judges_by_the_whole_graph_however_it_is_trained():
    data, table = train(), embedding().float()
    sampled, whole = (
        LightGCN(data, embedding_dim=DIM, layers=LAYERS, neighbours=most) for most in (2, 0)
    )
    users = np.arange(USERS, dtype=np.int32)
    torch.testing.assert_close(
        sampled.scorer(table).score_all(users), whole.scorer(table).score_all(users)
    )


def test_the_backbone_samples_where_the_table_of_all_would_be_large(
    monkeypatch: pytest.MonkeyPatch,
):
    data = train()
    monkeypatch.setattr(lightgcn, "MOST_VALUES", (USERS + ITEMS) * DIM)
    assert LightGCN(data, embedding_dim=DIM).neighbours == 0
    assert LightGCN(data, embedding_dim=DIM + 1).neighbours == lightgcn.NEIGHBOURS
    assert LightGCN(data, embedding_dim=DIM + 1, neighbours=0).neighbours == 0
    assert LightGCN(data, embedding_dim=1, neighbours=5).neighbours == 5


def test_the_backbone_samples_where_there_are_many_pairs(monkeypatch: pytest.MonkeyPatch):
    data = train()
    monkeypatch.setattr(lightgcn, "MOST_PAIRS", len(data))
    assert LightGCN(data, embedding_dim=DIM).neighbours == 0
    monkeypatch.setattr(lightgcn, "MOST_PAIRS", len(data) - 1)
    assert LightGCN(data, embedding_dim=DIM).neighbours == lightgcn.NEIGHBOURS


def test_a_copy_of_the_backbone_shares_its_graph():
    backbone = LightGCN(train(), embedding_dim=DIM, neighbours=2)
    assert copy.deepcopy(backbone).neighbourhoods is backbone.neighbourhoods


def test_fewer_than_no_neighbours_are_refused():
    with pytest.raises(ConfigError, match="neighbours=-1: LightGCN looks at 1 or more"):
        LightGCN(train(), embedding_dim=DIM, neighbours=-1)
