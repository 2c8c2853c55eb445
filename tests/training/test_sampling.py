from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, DataError
from cerp.kernels import triton_there
from cerp.kernels.triton_there import work_on
from cerp.models.batch import Batch
from cerp.training.sampling import Sampler


def interactions(pairs: list[tuple[int, int]], num_users: int, num_items: int) -> Interactions:
    user, item = zip(*pairs, strict=True)
    return Interactions.from_codes(
        list(user), list(item), users=Ids.range(num_users), items=Ids.range(num_items)
    )


def flat(batch: Batch) -> list[list[int]]:
    return [tensor.flatten().tolist() for tensor in batch]


SMALL = interactions([(0, 0), (0, 2), (1, 1), (2, 0), (2, 1), (2, 3)], num_users=3, num_items=5)


def test_an_epoch_holds_every_positive_once():
    sampler = Sampler(SMALL, batch_size=4, seed=3)
    pairs = [
        pair
        for batch in sampler
        for pair in zip(batch.users.tolist(), batch.positives.tolist(), strict=True)
    ]
    assert sorted(pairs) == list(zip(SMALL.user.tolist(), SMALL.item.tolist(), strict=True))
    assert (sampler.epoch, sampler.step) == (1, 0)


def test_two_epochs_come_in_different_order_with_other_negatives():
    sampler = Sampler(SMALL, batch_size=6)
    first, second = sampler.batch(0, 0), sampler.batch(1, 0)
    assert flat(first) != flat(second)


def test_two_steps_of_an_epoch_have_negatives_of_their_own():
    sampler = Sampler(interactions([(0, 0), (0, 1)], 1, 1000), batch_size=1, negatives=10)
    first, second = (sampler.batch(0, step).negatives.tolist() for step in (0, 1))
    assert first != second


@given(st.data())
def test_negatives_are_never_training_positives(data: st.DataObject):
    num_users, num_items = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 9))
    cells = st.tuples(st.integers(0, num_users - 1), st.integers(0, num_items - 1))
    train = interactions(data.draw(st.lists(cells, min_size=1, max_size=60)), num_users, num_items)
    positives = set(zip(train.user.tolist(), train.item.tolist(), strict=True))
    if all(count == num_items for count in np.diff(train.user_offsets) if count):
        with pytest.raises(DataError, match="nothing to train on"):
            Sampler(train, batch_size=7)
        return
    for batch in Sampler(train, batch_size=7, negatives=4, seed=data.draw(st.integers(0, 99))):
        for user, negatives in zip(batch.users.tolist(), batch.negatives.tolist(), strict=True):
            assert all(0 <= item < num_items for item in negatives)
            assert not positives & {(user, item) for item in negatives}


def test_a_user_with_one_item_left_gets_exactly_that_one():
    taken = [(0, item) for item in range(1000) if item != 637]
    sampler = Sampler(interactions(taken, 1, 1000), batch_size=999, negatives=3)
    assert set(sampler.batch(0, 0).negatives.flatten().tolist()) == {637}


def test_negatives_are_uniform_over_the_items_not_taken():
    train = interactions([(0, 1), (0, 2), (0, 5)], 1, 8)
    sampler = Sampler(train, batch_size=3, negatives=20_000)
    counts = torch.bincount(sampler.batch(0, 0).negatives.flatten(), minlength=8).double()
    # 60,000 draws over 5 items: 12,000 each, standard deviation 98.
    assert counts[[1, 2, 5]].tolist() == [0, 0, 0]
    assert (counts[[0, 3, 4, 6, 7]] - 12_000).abs().max() < 5 * 98


def test_a_user_who_took_everything_is_left_out_and_counted():
    sampler = Sampler(interactions([(0, 0), (0, 1), (1, 0)], 2, 2), batch_size=8)
    assert sampler.skipped_users == 1
    assert sampler.batch(0, 0).users.tolist() == [1]


def test_the_same_seed_gives_the_same_batches_and_another_seed_does_not():
    batches = [flat(Sampler(SMALL, batch_size=6, seed=seed).batch(2, 0)) for seed in (1, 1, 2)]
    assert batches[0] == batches[1] != batches[2]


def test_a_restored_sampler_goes_on_where_the_saved_one_stood():
    sampler = Sampler(SMALL, batch_size=2, seed=5)
    next(iter(sampler))
    state = sampler.state_dict()
    rest = [flat(batch) for batch in sampler]
    restored = Sampler(SMALL, batch_size=2, seed=5)
    restored.load_state_dict(state)
    assert [flat(batch) for batch in restored] == rest


def test_restoring_a_state_of_another_seed_is_refused():
    with pytest.raises(ConfigError, match="seed 5, this one 6"):
        Sampler(SMALL, batch_size=2, seed=6).load_state_dict(
            Sampler(SMALL, batch_size=2, seed=5).state_dict()
        )


def test_a_batch_larger_than_the_data_is_the_whole_epoch():
    sampler = Sampler(SMALL, batch_size=1000)
    assert len(sampler) == 1
    assert len(sampler.batch(0, 0).users) == 6


def test_an_empty_batch_size_is_refused():
    with pytest.raises(ConfigError, match="at least 1 positive"):
        Sampler(SMALL, batch_size=0)


def in_blocks(together: int, **settings: int) -> Sampler:
    """A sampler that draws so many batches at once, as those of a GPU do."""
    sampler = Sampler(MANY, seed=5, **settings)
    sampler._together = together
    return sampler


MANY = interactions(
    [(user, (3 * user + 2 * place) % 41) for user in range(10) for place in range(10)], 10, 41
)


@pytest.mark.parametrize("together", [1, 2, 3, 100])
def test_batches_that_are_drawn_together_are_an_epoch_as_well(together: int):
    sampler = in_blocks(together, batch_size=16, negatives=3)
    batches = list(sampler)
    assert (sampler.epoch, sampler.step) == (1, 0)
    assert [len(batch.users) for batch in batches] == [16] * 6 + [4]
    pairs = [(u, i) for batch in batches for u, i in zip(*flat(batch)[:2], strict=True)]
    assert sorted(pairs) == list(zip(MANY.user.tolist(), MANY.item.tolist(), strict=True))
    taken = set(pairs)
    for users, _, negatives in batches:
        assert negatives.shape == (len(users), 3)
        drawn = zip(users.tolist(), negatives.tolist(), strict=True)
        assert not any((user, item) in taken for user, row in drawn for item in row)


def test_a_sampler_that_was_restored_within_a_block_goes_on_with_the_same_batches():
    sampler = in_blocks(3, batch_size=16)
    for _ in range(4):
        sampler.next_batch()
    restored = in_blocks(3, batch_size=16)
    restored.load_state_dict(sampler.state_dict())
    assert [flat(batch) for batch in restored] == [flat(batch) for batch in sampler]


def test_an_empty_epoch_is_refused():
    with pytest.raises(ConfigError, match="an epoch needs at least 1 positive, got 0"):
        Sampler(SMALL, batch_size=2, epoch_size=0)


@pytest.mark.parametrize(
    ("size", "steps"), [(1, 1), (16, 1), (40, 3), (100, 7), (101, 7), (260, 17)]
)
@pytest.mark.parametrize("together", [1, 3])
def test_epochs_of_a_size_are_passes_cut_elsewhere(size: int, steps: int, together: int):
    whole = in_blocks(together, batch_size=16)
    expected = [flat(batch) for _ in range(5) for batch in whole]
    sampler = in_blocks(together, batch_size=16, epoch_size=size)
    assert len(sampler) == steps
    found: list[list[list[int]]] = []
    while len(found) < len(expected):
        epoch = [flat(batch) for batch in sampler]
        assert len(epoch) == steps
        found += epoch
    assert found[: len(expected)] == expected


def test_a_batch_of_a_sized_epoch_has_as_many_positives_as_it_says():
    sampler = Sampler(MANY, batch_size=16, epoch_size=40)
    sizes = [sampler.size_at(epoch, step) for epoch in range(3) for step in range(3)]
    assert sizes == [16, 16, 16, 16, 16, 16, 4, 16, 16]
    assert [len(sampler.next_batch().users) for _ in sizes] == sizes


def test_a_sampler_that_was_restored_in_a_sized_epoch_goes_on_with_the_same_batches():
    sampler = Sampler(MANY, batch_size=16, epoch_size=40, seed=5)
    for _ in range(8):
        sampler.next_batch()
    restored = Sampler(MANY, batch_size=16, epoch_size=40, seed=5)
    restored.load_state_dict(sampler.state_dict())
    assert (restored.epoch, restored.step) == (2, 2)
    for _ in range(5):
        assert flat(restored.next_batch()) == flat(sampler.next_batch())


@pytest.mark.gpu
def test_on_the_gpu_negatives_are_not_positives_either():
    sampler = Sampler(SMALL, batch_size=6, negatives=50, device="cuda")
    batch = sampler.batch(0, 0)
    positives = set(zip(SMALL.user.tolist(), SMALL.item.tolist(), strict=True))
    drawn = zip(batch.users.tolist(), batch.negatives.tolist(), strict=True)
    assert not any((user, item) in positives for user, row in drawn for item in row)


@pytest.mark.gpu
@pytest.mark.parametrize("weighted", [False, True])
def test_a_kernel_draws_the_same_batches(weighted: bool, monkeypatch):
    train = synthetic(300, 80, 4000)
    if weighted:
        train = replace(train, weight=np.arange(1.0, 4001.0, dtype=np.float32))
    part = train.subset(np.arange(4000) % 3 > 0)
    device = torch.empty(0, device="cuda").device
    assert work_on(device)
    drawn = []
    for has_kernels in (True, False):
        monkeypatch.setattr(triton_there, "_WORKING", {device: has_kernels})
        for positives in (None, part):
            sampler = Sampler(train, positives=positives, batch_size=513, device="cuda")
            sampler._together = 3  # so that an epoch has several blocks, and a last one
            drawn.append([flat(batch) for batch in sampler])
    assert drawn[:2] == drawn[2:]
    assert drawn[0] != drawn[1]


@given(st.data())
def test_batches_of_a_part_have_its_positives_and_negatives_that_are_new_to_the_user(
    data: st.DataObject,
):
    cells = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=2, unique=True)
    pairs = data.draw(cells)
    part = data.draw(st.lists(st.sampled_from(pairs), min_size=1, unique=True))
    whole = interactions(pairs, 4, 6)
    left = {user for user in range(4) if (whole.user == user).sum() < 6}
    if not {user for user, _ in part} & left:
        return
    sampler = Sampler(whole, positives=interactions(part, 4, 6), batch_size=3)
    drawn: list[tuple[int, int]] = []
    for batch in sampler:
        drawn += zip(batch.users.tolist(), batch.positives.tolist(), strict=True)
        for user, items in zip(batch.users.tolist(), batch.negatives.tolist(), strict=True):
            assert not {(user, item) for item in items} & set(pairs)
    assert sorted(drawn) == sorted((user, item) for user, item in part if user in left)


def counts_by_pair(sampler: Sampler, epochs: int, shape: tuple[int, int]) -> np.ndarray:
    counts = np.zeros((epochs, *shape), dtype=int)
    for epoch in range(epochs):
        for batch in sampler:
            np.add.at(counts[epoch], (batch.users.numpy(), batch.positives.numpy()), 1)
    return counts


def test_a_pair_comes_up_in_proportion_to_its_weight_in_every_epoch():
    weight = np.array([1.0, 2.0, 0.5, 4.0, 2.5])
    train = Interactions.from_ids([0, 0, 1, 1, 2], [0, 1, 1, 2, 3], weight=weight)
    counts = counts_by_pair(Sampler(train, batch_size=2, seed=1), 400, (3, 4))
    found = counts[:, train.user, train.item]
    expected = 5 * weight / weight.sum()  # 0.5, 1, 0.25, 2, 1.25 of five positives
    assert (counts.sum(axis=(1, 2)) == 5).all()
    assert (np.abs(found - expected) < 1).all()  # the whole number above or below
    # A mean of 400 draws of variance 1/4 at most: 5 standard deviations.
    np.testing.assert_allclose(found.mean(axis=0), expected, atol=5 * 0.5 / 20)


def test_equal_weights_give_the_batches_of_no_weights():
    users, items = [0, 0, 1, 1, 2], [0, 1, 1, 2, 3]
    plain = Sampler(Interactions.from_ids(users, items), batch_size=2, seed=4)
    alike = Sampler(Interactions.from_ids(users, items, weight=[3.0] * 5), batch_size=2, seed=4)
    for mine, theirs in zip(plain, alike, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))


def test_positives_of_a_part_share_its_weights_alone():
    train = Interactions.from_ids([0, 0, 1, 1, 2], [0, 1, 1, 2, 3], weight=[9, 1, 3, 9, 9])
    part = train.subset(np.array([False, True, True, False, False]))
    counts = counts_by_pair(Sampler(train, positives=part, batch_size=2, seed=1), 200, (3, 4))
    assert counts.sum() == counts[:, part.user, part.item].sum() == 400
    np.testing.assert_allclose(counts[:, part.user, part.item].mean(axis=0), [0.5, 1.5], atol=0.18)
