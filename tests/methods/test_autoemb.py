from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.errors import ConfigError, DataError
from cerp.methods import method
from cerp.methods.autoemb.embedding import AutoEmbedding, sizes_within
from cerp.methods.base import Context
from cerp.methods.popularity_networks import popularity_buckets
from cerp.models.embeddings.base import Embedding
from cerp.training.losses import bpr
from cerp.training.objective import Objective
from embedding_contract import (
    ALL_IDS,
    BACKBONES,
    BATCH,
    DEGREES,
    DIM,
    ENTITIES,
    TRAIN,
    USERS,
    EmbeddingContract,
    recommender,
    seeded,
)


class TestAutoEmb(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> AutoEmbedding:
        embedding = AutoEmbedding(
            ENTITIES,
            DIM,
            padding_idx,
            num_users=USERS,
            degrees=DEGREES,
            sizes=(1, 2, 4),
            generator=seeded(seed),
        )
        embedding.train().refresh()
        return embedding.eval()

    def fresh(self, padding_idx: int | None = None) -> AutoEmbedding:
        return self.build(padding_idx, seed=99)

    def smooth(self, embedding: Embedding) -> set[str]:
        """In evaluation the weights are the kept ones, whatever the controllers are."""
        return {name for name in super().smooth(embedding) if not name.startswith("controllers")}


def state_without(embedding: AutoEmbedding, part: str) -> dict[str, Tensor]:
    state = embedding.state_dict()
    return {name: entry.clone() for name, entry in state.items() if not name.startswith(part)}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def test_vectors_are_those_of_the_definition():
    embedding = TestAutoEmb().build().double()
    k = 20  # an item
    parts, maps = embedding.weight[k].split([1, 2, 4]), embedding.parts.items.maps
    # Before any training the averages are 0 and 1, and BN(x) = x / √(1 + ε).
    mapped = [
        torch.tanh(one(part) / (1 + 1e-5) ** 0.5) for one, part in zip(maps, parts, strict=True)
    ]
    expected = sum(a * z for a, z in zip(embedding.alpha[k], mapped, strict=True))
    torch.testing.assert_close(embedding(torch.tensor(k)), expected)


@pytest.mark.parametrize("training", [True, False])
def test_mixing_weights_add_up_to_one(training: bool):
    weights = TestAutoEmb().build().train(training).mixing_weights(ALL_IDS)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(ENTITIES))
    assert bool((weights > 0).all())


def test_weights_start_on_the_smallest_size():
    embedding = AutoEmbedding(ENTITIES, DIM, num_users=USERS, degrees=DEGREES)
    assert embedding.alpha.tolist() == [[1, 0, 0]] * ENTITIES


@pytest.mark.parametrize(("size", "start", "end"), [(0, 0, 1), (1, 1, 3), (2, 3, 7)])
def test_weights_on_one_size_make_a_model_of_that_size(size: int, start: int, end: int):
    embedding = TestAutoEmb().build()
    embedding.alpha.copy_(torch.eye(3)[size].expand(ENTITIES, 3))
    before = embedding.table().detach().clone()
    others = torch.ones(7, dtype=torch.bool)
    others[start:end] = False
    embedding.weight.data[:, others] = 5.0
    assert torch.equal(embedding.table(), before)
    embedding.weight.data[:, ~others] += 1.0
    assert bool((embedding.table() != before).any(dim=1).all())


def test_equal_degree_and_last_weights_give_equal_weights():
    degrees = np.array([3, 3, 4, 3] + [0] * 19)
    embedding = AutoEmbedding(ENTITIES, DIM, num_users=4, degrees=degrees, generator=seeded())
    embedding.alpha[3] = torch.tensor([0.0, 1.0, 0.0])
    weights = embedding.mixing_weights(torch.arange(4))
    torch.testing.assert_close(weights[0], weights[1])
    assert not torch.allclose(weights[0], weights[2])
    assert not torch.allclose(weights[0], weights[3])


def test_vectors_of_all_entities_never_wait_for_the_device():
    embedding = TestAutoEmb().build().train().to("meta")  # has no values: looking at one fails
    embedding.table().sum().backward()
    with embedding.controllers_learning():
        embedding.table().sum().backward()
    assert all(entry.grad is not None for entry in embedding.parameters())


def test_users_and_items_have_controllers_and_maps_of_their_own():
    embedding = TestAutoEmb().build()
    for part in (embedding.controllers.users, embedding.parts.users):
        for parameter in part.parameters():
            parameter.data.add_(0.5)
    changed, before = embedding.table(), TestAutoEmb().build().table()
    assert torch.equal(changed[USERS:], before[USERS:])
    assert bool((changed[:USERS] != before[:USERS]).any(dim=1).all())


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_step_of_the_controllers_leaves_the_model_as_it_was(backbone: str):
    embedding = TestAutoEmb().build().train()
    model = recommender(embedding, backbone)
    before = state_without(embedding, "controllers")
    controllers = copy.deepcopy(embedding.controllers)
    with embedding.controllers_learning():
        bpr(model(BATCH).scores).backward()
    assert all(entry.grad is None for entry in embedding.model_parameters())
    torch.optim.SGD(embedding.controller_parameters(), lr=1.0).step()
    assert same(before, embedding.state_dict())
    pairs = zip(embedding.controllers.parameters(), controllers.parameters(), strict=True)
    assert any(not torch.equal(mine, former) for mine, former in pairs)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_step_of_the_model_leaves_the_controllers_as_they_were(backbone: str):
    embedding = TestAutoEmb().build().train()
    model = recommender(embedding, backbone)
    before, rows = embedding.controllers.state_dict(), embedding.weight.detach().clone()
    before = {name: entry.clone() for name, entry in before.items()}
    bpr(model(BATCH).scores).backward()
    assert all(entry.grad is None for entry in embedding.controller_parameters())
    torch.optim.SGD(embedding.model_parameters(), lr=1.0).step()
    assert same(before, embedding.controllers.state_dict())
    assert not torch.equal(embedding.weight, rows)


def test_the_two_groups_are_all_parameters():
    embedding = TestAutoEmb().build()
    groups = [*embedding.model_parameters(), *embedding.controller_parameters()]
    assert {id(entry) for entry in groups} == {id(entry) for entry in embedding.parameters()}
    assert len(groups) == len(list(embedding.parameters()))


def test_a_step_of_the_controllers_lowers_their_loss():
    embedding = TestAutoEmb().build().train()
    model = recommender(embedding, "mf")
    with embedding.controllers_learning():
        loss = bpr(model(BATCH).scores)
        loss.backward()
        torch.optim.SGD(embedding.controller_parameters(), lr=1e-3).step()
        assert bpr(model(BATCH).scores).item() < loss.item()


def test_only_the_entities_of_a_batch_are_remembered():
    embedding = AutoEmbedding(ENTITIES, DIM, num_users=USERS, degrees=DEGREES, generator=seeded())
    wanted = embedding.mixing_weights(torch.tensor([2, 2, 20])).detach()
    embedding.remember(torch.tensor([2, 2, 20]))
    torch.testing.assert_close(embedding.alpha[[2, 2, 20]], wanted)
    embedding.alpha[[2, 20]] = torch.tensor([1.0, 0.0, 0.0])
    assert embedding.alpha.tolist() == [[1, 0, 0]] * ENTITIES


def test_a_step_remembers_the_users_the_positives_and_the_negatives_of_its_batch():
    nothing = TRAIN.subset(np.zeros(len(TRAIN), dtype=bool))
    context = Context(
        Splits(TRAIN, nothing, nothing), Config(backbone="mf", dim=DIM), RunOptions(), ()
    )
    embedding = AutoEmbedding(ENTITIES, DIM, num_users=USERS, degrees=DEGREES, generator=seeded())
    model = recommender(embedding.train(), "mf")
    method("autoemb").hooks(context, model).objective(Objective(), 0)(model, BATCH, 4)
    remembered = (embedding.alpha[:, 0] < 1).nonzero().flatten().tolist()
    # users 0, 2 and 7; positive items 0 7 10 13 and negative ones 0 1 3 4 5 9 behind 9 users
    assert remembered == [0, 2, 7, 9, 10, 12, 13, 14, 16, 18, 19, 22]


def test_evaluation_uses_the_weights_that_were_kept():
    embedding = TestAutoEmb().build()
    before = embedding.table().detach().clone()
    for parameter in embedding.controller_parameters():
        parameter.data.add_(1.0)
    assert torch.equal(embedding.table(), before)
    embedding.refresh()
    assert not torch.equal(embedding.table(), before)


@pytest.mark.parametrize(
    ("per_entity", "sizes"),
    [(13, (1, 4, 8)), (12, (1, 3, 8)), (6, (1, 2, 3)), (7, (1, 2, 4)), (26, (2, 8, 16))],
)
def test_sizes_of_a_budget(per_entity: int, sizes: tuple[int, ...]):
    assert sizes_within(per_entity * 100 + 99, 100) == sizes


@given(st.integers(6, 400))
def test_sizes_grow_and_use_the_budget_up(per_entity: int):
    small, middle, large = sizes_within(per_entity * 10, 10)
    assert 0 < small < middle < large
    assert small + middle + large == per_entity


def test_the_paper_counts_rows_and_the_honest_count_everything():
    embedding = AutoEmbedding.for_limit(
        ENTITIES, DIM, 13 * ENTITIES + 5, num_users=USERS, degrees=DEGREES
    )
    # two sides of: maps 13·6 + 3·6, norms 3·12, popularity 1024·32, its norm 64,
    # hidden 35·512 + 512, its norm 1024, output 512·3 + 3
    side = 78 + 18 + 36 + 32_768 + 64 + 18_432 + 1024 + 1539
    assert embedding.cost() == (13 * ENTITIES, 13 * ENTITIES + 3 * ENTITIES + 2 * side)


def test_popularity_is_cut_into_logarithmic_buckets():
    degrees = np.array([0, 1, 3, 45, 10**9, 2**40])
    assert popularity_buckets(degrees, 6).tolist() == [0, 32, 64, 176, 956, 1023]
    assert len(popularity_buckets(np.arange(46), 46).unique()) == 46


def test_what_cannot_be_built_is_refused():
    with pytest.raises(ConfigError, match="smallest possible budget is 138"):
        AutoEmbedding.for_limit(ENTITIES, DIM, 137, num_users=USERS, degrees=DEGREES)
    with pytest.raises(ConfigError, match="the smallest first"):
        AutoEmbedding(ENTITIES, DIM, num_users=USERS, degrees=DEGREES, sizes=(4, 4))
    with pytest.raises(ConfigError, match="users and items"):
        AutoEmbedding(ENTITIES, DIM, num_users=ENTITIES, degrees=DEGREES)
    with pytest.raises(DataError, match="each of the 23 entities"):
        AutoEmbedding(ENTITIES, DIM, num_users=USERS, degrees=DEGREES[:-1])
