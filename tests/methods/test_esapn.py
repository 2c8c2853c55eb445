from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.errors import ConfigError, DataError
from cerp.methods.esapn.embedding import GrowingEmbedding
from cerp.methods.esapn.policy import (
    ENLARGE,
    EntityLosses,
    LossHistory,
    SizePolicy,
    grow,
    policy_loss,
    ranking_losses,
)
from embedding_contract import (
    ALL_IDS,
    BATCH,
    DIM,
    ENTITIES,
    USERS,
    EmbeddingContract,
    recommender,
    seeded,
)

SIZES = (1, 3, DIM)
PAIRS = BATCH.users, BATCH.positives + USERS


def growing(limit: int | None = None, seed: int = 0, **options: object) -> GrowingEmbedding:
    return GrowingEmbedding(
        ENTITIES, DIM, num_users=USERS, sizes=SIZES, limit=limit, generator=seeded(seed), **options
    )


def policy() -> SizePolicy:
    return SizePolicy(USERS, len(SIZES), ALL_IDS.numpy() ** 2, generator=seeded(1))


def copied(embedding: GrowingEmbedding) -> dict[str, torch.Tensor]:
    return copy.deepcopy(embedding.state_dict())


class TestGrowing(EmbeddingContract):
    def build(self, padding_idx: int | None = None, seed: int = 0) -> GrowingEmbedding:
        return growing(seed=seed, padding_idx=padding_idx, levels=ALL_IDS % 3).eval()

    def fresh(self, padding_idx: int | None = None) -> GrowingEmbedding:
        return growing(seed=99, padding_idx=padding_idx).eval()


def test_vectors_are_those_of_the_definition():
    embedding = TestGrowing().build().double()
    for k, maps in ((7, embedding.maps.users), (12, embedding.maps.items)):
        row = embedding.tables[k % 3][k]
        for step in maps.steps[k % 3 :]:
            row = step(row)
        # Before any training the averages are 0 and 1, and BN(x) = x / √(1 + ε).
        expected = torch.tanh(row / (1 + 1e-5) ** 0.5)
        torch.testing.assert_close(embedding(torch.tensor(k)), expected)


def test_only_the_table_of_an_entitys_size_learns():
    embedding = TestGrowing().build()
    embedding.table().sum().backward()
    for level, table in enumerate(embedding.tables):
        assert torch.equal(table.grad.any(dim=1), (ALL_IDS % 3).eq(level))


def test_enlarging_copies_what_the_map_makes_of_the_row():
    embedding = growing()
    grown = embedding.enlarge(torch.tensor([2, 20]))
    assert grown.tolist() == [2, 20]
    small, large = embedding.tables[0], embedding.tables[1]
    torch.testing.assert_close(large[2], embedding.maps.users.steps[0](small[2]))
    torch.testing.assert_close(large[20], embedding.maps.items.steps[0](small[20]))
    assert embedding.levels.nonzero().flatten().tolist() == [2, 20]


def test_enlarging_changes_no_vector():
    embedding = TestGrowing().build()
    before = embedding.table().detach().clone()
    embedding.enlarge(ALL_IDS)
    torch.testing.assert_close(embedding.table(), before)


@settings(max_examples=20)
@given(st.integers(ENTITIES, ENTITIES * DIM), st.integers(0, 9))
def test_sizes_only_grow_and_stay_within_the_limit(limit: int, seed: int):
    embedding, rng = growing(limit), np.random.default_rng(seed)
    for _ in range(6):
        before = embedding.levels.clone()
        ids = torch.from_numpy(rng.permutation(ENTITIES)[:15])
        grown = embedding.enlarge(ids)
        assert embedding.nnz == sum(SIZES[level] for level in embedding.levels.tolist()) <= limit
        assert torch.equal(embedding.levels[grown], before[grown] + 1)
        assert int((embedding.levels - before).sum()) == len(grown)
    assert int(embedding.levels.max()) < len(SIZES)


def test_the_last_room_goes_to_the_first_ids():
    embedding = growing(limit=ENTITIES + 5)  # room for two steps from 1 to 3
    assert embedding.enlarge(torch.tensor([5, 3, 9])).tolist() == [5, 3]
    assert not embedding.can_grow(ALL_IDS).any()


def test_the_largest_size_cannot_grow():
    embedding = growing(levels=torch.full((ENTITIES,), 2))
    assert embedding.growth(ALL_IDS).tolist() == [0] * ENTITIES
    assert len(embedding.enlarge(ALL_IDS)) == 0


def test_a_trial_is_taken_back_to_the_last_bit():
    embedding = TestGrowing().build()
    before, ids = copied(embedding), torch.tensor([1, 3, 20, 22])
    with embedding.enlarged(ids):
        assert embedding.levels[ids].tolist() == [2, 1, 2, 2]  # 20 had the largest size
        embedding.tables[2].data[[1, 22]] = 9.0
    after = embedding.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_trial_is_taken_back_after_an_error():
    embedding = growing()
    before = copied(embedding)
    with pytest.raises(ZeroDivisionError), embedding.enlarged(ALL_IDS):
        raise ZeroDivisionError
    after = embedding.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_neither_vectors_nor_a_trial_wait_for_the_device():
    embedding = TestGrowing().build().train().to("meta")  # has no values: looking at one fails
    with embedding.enlarged(ALL_IDS.to("meta")):
        embedding.table().sum().backward()
    assert all(entry.grad is not None for entry in embedding.parameters())


def test_the_policy_gives_probabilities_and_none_for_what_cannot_be():
    embedding = TestGrowing().build()
    chances = policy()(ALL_IDS, embedding).exp()
    torch.testing.assert_close(chances.sum(dim=1), torch.ones(ENTITIES))
    assert torch.equal(chances[:, ENLARGE] > 0, ALL_IDS % 3 < 2)


def test_a_forced_keep_teaches_the_policy_nothing():
    embedding, chooser = growing(limit=ENTITIES), policy()
    history = LossHistory(ENTITIES)
    history.append(EntityLosses(ALL_IDS, torch.ones(ENTITIES)))
    loss = policy_loss(chooser, embedding, history, *PAIRS, lambda: torch.zeros(4))
    loss.backward()
    assert not any(entry.grad.any() for entry in chooser.parameters())


@pytest.mark.parametrize(("loss", "sign"), [(0.2, 1), (0.8, -1)])
def test_an_action_becomes_likelier_when_it_lowers_the_loss(loss: float, sign: int):
    embedding, chooser = growing(), policy()
    history = LossHistory(ENTITIES)
    history.append(EntityLosses(ALL_IDS, torch.full((ENTITIES,), 0.5)))
    ids, taken = torch.unique(torch.cat(PAIRS)), []

    def judge() -> torch.Tensor:
        taken.append(embedding.levels[ids])
        return torch.full((4,), loss)

    policy_loss(chooser, embedding, history, *PAIRS, judge, seeded()).backward()
    before = chooser(ids, embedding).gather(1, taken[0][:, None]).sum().item()
    torch.optim.SGD(chooser.parameters(), lr=1e-3).step()
    after = chooser(ids, embedding).gather(1, taken[0][:, None]).sum().item()
    assert 0 < int(taken[0].sum()) < len(ids)
    assert (after - before) * sign > 0


def test_a_policy_step_leaves_the_embedding_as_it_was():
    embedding, chooser = growing(), policy()
    model, before = recommender(embedding, "lightgcn").train(), copied(embedding)
    history = LossHistory(ENTITIES)
    policy_loss(
        chooser, embedding, history, *PAIRS, lambda: ranking_losses(model(BATCH).scores), seeded()
    ).backward()
    after = embedding.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert all(entry.grad is None for entry in embedding.parameters())


def test_the_policy_loss_by_hand():
    embedding, chooser = growing(), policy().eval()
    history = LossHistory(ENTITIES)
    history.append(EntityLosses(ALL_IDS, torch.linspace(0, 1, ENTITIES)))
    ids, taken, losses = torch.unique(torch.cat(PAIRS)), [], torch.tensor([0.1, 0.2, 0.5, 0.9])

    def judge() -> torch.Tensor:
        taken.append(embedding.levels[ids])
        return losses

    loss = policy_loss(chooser, embedding, history, *PAIRS, judge, seeded(2))
    # users 2 0 2 7 with items 19 9 22 16 behind them: user 2 has the mean of 0.1 and 0.5
    own = {0: 0.2, 2: 0.3, 7: 0.9, 9: 0.2, 16: 0.9, 19: 0.1, 22: 0.5}
    log_policy = chooser(ids, embedding).detach()
    expected = -sum(
        log_policy[row, action].item() * (k / 22 - own[k])
        for row, (k, action) in enumerate(zip(ids.tolist(), taken[0].tolist(), strict=True))
    )
    assert loss.item() == pytest.approx(expected, rel=1e-4)


def test_growing_follows_the_policy_clearest_cases_first():
    embedding, chooser = growing(limit=ENTITIES + 5), policy()
    keep, enlarge = chooser(ALL_IDS, embedding).detach().unbind(dim=1)
    wanted = sorted(ALL_IDS.tolist(), key=lambda k: (keep - enlarge)[k].item())
    assert grow(chooser, embedding, ALL_IDS).tolist() == wanted[:2]
    assert bool((enlarge > keep)[wanted[:2]].all())


def test_nobody_grows_against_the_policy():
    embedding, chooser = growing(), policy()
    for side in (chooser.controllers.users, chooser.controllers.items):
        side.output.bias.data.copy_(torch.tensor([100.0, 0.0]))
    assert len(grow(chooser, embedding, ALL_IDS)) == 0


def test_rewards_compare_with_the_mean_of_the_last_losses():
    history, ids = LossHistory(3, length=2), torch.tensor([0, 2])
    for first, second in ((9.0, 1.0), (0.5, 3.0), (0.7, 5.0)):
        history.append(EntityLosses(ids, torch.tensor([first, second])))
    found = EntityLosses(torch.tensor([0, 1, 2]), torch.tensor([0.4, 0.4, 5.0]))
    # last two: 0.5 0.7 and 3 5; entity 1 has none
    torch.testing.assert_close(history.rewards(found), torch.tensor([0.2, 0.0, -1.0]))


def test_ranking_losses_are_bounded_and_fall_with_the_distance():
    scores = torch.tensor([[0.0, 0.0, 0.0], [1e4, 0.0, 0.0], [0.0, 1e4, 1e4], [1.0, 0.0, 2.0]])
    torch.testing.assert_close(ranking_losses(scores), torch.tensor([0.5, 0.0, 1.0, 0.5]))


def test_counts_with_and_without_the_maps():
    embedding = growing(levels=ALL_IDS % 3)  # 8, 8 and 7 entities
    values = 8 * 1 + 8 * 3 + 7 * 6
    # two sides of: 1·3 + 3, 3·6 + 6, and a scale and an offset for each of 6
    assert embedding.cost() == (values, values + 2 * (6 + 24 + 12))


def test_a_limit_chooses_the_sizes_that_vectors_can_have():
    embedding = GrowingEmbedding.for_limit(ENTITIES, 10, 100, num_users=USERS)
    assert (embedding.sizes, embedding.embedding_dim) == ((2, 4, 8), 8)
    assert (embedding.nnz, embedding.limit) == (46, 100)


def test_what_cannot_be_built_is_refused():
    with pytest.raises(ConfigError, match="smallest possible budget is 46"):
        GrowingEmbedding.for_limit(ENTITIES, 128, 45, num_users=USERS)
    with pytest.raises(ConfigError, match="two or more sizes"):
        GrowingEmbedding.for_limit(ENTITIES, 2, 100, num_users=USERS)
    with pytest.raises(ConfigError, match=r"largest of their sizes \(1, 3\), not 6"):
        GrowingEmbedding(ENTITIES, DIM, num_users=USERS, sizes=(1, 3))
    with pytest.raises(DataError, match=r"one of 0\.\.2 for each of the 23"):
        growing(levels=ALL_IDS)
