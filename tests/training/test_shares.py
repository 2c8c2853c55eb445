"""Shares of several processes: together they hold and draw what one process would."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.synthetic import synthetic
from cerp.models.batch import Batch
from cerp.training import epoch_order, shares
from cerp.training.sampling import Sampler
from cerp.training.shares import cuts_by_weight, share_of

WORLDS = [1, 2, 3, 5]
USERS, ITEMS = 60, 80
TRAIN = synthetic(USERS, ITEMS, 900)
EVERYTHING = np.repeat([7, 41], ITEMS), np.tile(np.arange(ITEMS), 2)
"""Users 7 and 41 have taken all items, and have no negatives."""
SKIPPED = Interactions.from_codes(
    np.concatenate([TRAIN.user, EVERYTHING[0]]),
    np.concatenate([TRAIN.item, EVERYTHING[1]]),
    users=Ids.range(USERS),
    items=Ids.range(ITEMS),
)


def rows_of(batches: list[Batch]) -> list[tuple[int, ...]]:
    """User, positive and negatives of all rows, sorted."""
    return sorted(
        (user, positive, *negatives)
        for batch in batches
        for user, positive, negatives in zip(*(part.tolist() for part in batch), strict=True)
    )


def weighted(data: Interactions) -> Interactions:
    return replace(data, weight=np.random.default_rng(1).random(len(data)).astype("<f4") + 0.1)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("most_shuffled", [1 << 24, 100], ids=["shuffled", "formula"])
@pytest.mark.parametrize("is_part", [False, True], ids=["all", "part"])
@pytest.mark.parametrize("is_weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("data", [TRAIN, SKIPPED], ids=["plain", "skipped"])
@pytest.mark.parametrize("size", [None, 1500], ids=["pass", "sized"])
def test_shares_draw_the_rows_of_the_global_batch(
    data, is_weighted, is_part, most_shuffled, world, size, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(epoch_order, "MOST_SHUFFLED", most_shuffled)
    train = weighted(data) if is_weighted else data
    positives = train.subset(np.arange(len(train)) % 3 > 0) if is_part else None
    drawn: dict[str, Any] = {"batch_size": 128, "epoch_size": size, "seed": 5}
    one = Sampler(train, positives=positives, **drawn)
    several = [
        Sampler(train, positives=positives, share=(rank, world), **drawn) for rank in range(world)
    ]
    for _ in range(2 * len(one)):
        epoch, position = one.epoch, one.step
        whole, parts = one.next_batch(), [sampler.next_batch() for sampler in several]
        assert rows_of(parts) == rows_of([whole])
        assert {sampler.size_at(epoch, position) for sampler in several} == {len(whole.users)}
        assert {(sampler.epoch, sampler.step) for sampler in several} == {(one.epoch, one.step)}
        owners = [set(part.users.tolist()) for part in parts]
        assert sum(map(len, owners)) == len(set().union(*owners))
    assert (epoch, one.epoch) == (1, 2)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(any),
    st.integers(1, 7),
)
def test_users_and_pairs_are_shared_out_without_a_gap_and_evenly(counts: list[int], world: int):
    found = [share_of(np.array(counts), rank, world) for rank in range(world)]
    users = [user for share in found for user in range(len(counts))[share.users]]
    pairs = [pair for share in found for pair in range(sum(counts))[share.rows]]
    assert users == list(range(len(counts)))
    assert pairs == list(range(sum(counts)))
    for share in found:
        held = share.rows.stop - share.rows.start
        assert held == sum(counts[share.users])
        assert abs(held - sum(counts) / world) <= max(counts) + 1


def test_a_sampler_of_a_share_holds_an_nth():
    sizes = [
        sum(tensor.nbytes for tensor in vars(sampler).values() if isinstance(tensor, torch.Tensor))
        for sampler in (Sampler(TRAIN, share=(rank, 3), batch_size=9) for rank in (0, 1, 2))
    ]
    assert sum(sizes) == 8 * (len(TRAIN) + USERS + 3)
    assert max(sizes) < 8 * (len(TRAIN) + USERS) / 3 * 1.1


def test_more_processes_than_users_leave_some_without_rows():
    batches = [
        Sampler(TRAIN, share=(rank, 2 * USERS), batch_size=64).batch(0, 0)
        for rank in range(2 * USERS)
    ]
    assert 0 in {len(batch.users) for batch in batches}
    assert rows_of(batches) == rows_of([Sampler(TRAIN, batch_size=64).batch(0, 0)])


@settings(max_examples=40)
@given(
    count=st.integers(1, 40),
    cuts=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    stretch=st.integers(1, 12),
)
def test_stretches_by_weight_are_those_of_the_whole_line_to_the_bit(count, cuts, stretch):
    weight = np.random.default_rng(count).random(count).astype(np.float32) + 0.1
    start, stop = sorted(min(cut, count) for cut in cuts)
    ends = np.cumsum(weight, dtype=np.float64)
    expected = np.concatenate(([0.0], ends)) * (count / ends[-1])
    expected[-1] = np.inf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shares, "LONG_STRETCH", stretch)
        found = cuts_by_weight(weight, slice(start, stop))
    assert found.tolist() == expected[start : stop + 1].tolist()
