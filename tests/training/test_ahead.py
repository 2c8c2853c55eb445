from __future__ import annotations

import pytest
import torch

from cerp.data.synthetic import synthetic
from cerp.models.batch import Batch
from cerp.training.ahead import Ahead
from cerp.training.sampling import Sampler

TRAIN = synthetic(40, 30, 300).split(seed=0).train


def sampler(device: str = "cpu") -> Sampler:
    return Sampler(TRAIN, batch_size=64, seed=3, device=device)


def is_same(first: Batch, second: Batch) -> bool:
    return all(map(torch.equal, first, second))


def test_batches_are_those_of_their_places_and_drawn_once():
    plain, ahead, places = sampler(), sampler(), []

    def draw(epoch: int, block: int) -> list[Batch]:
        places.append((epoch, block))
        return plain.block(epoch, block)

    ahead._ahead = Ahead(draw, "cpu")
    count = len(plain) + 2  # into the next epoch
    assert all(is_same(ahead.next_batch(), plain.next_batch()) for _ in range(count))
    assert (ahead.epoch, ahead.step) == (plain.epoch, plain.step) == (1, 2)
    assert len(places) == len(set(places)) == count + 1


def test_blocks_of_batches_are_drawn_ahead_once_each():
    in_blocks, places = sampler(), []

    def draw(epoch: int, block: int) -> list[Batch]:
        places.append((epoch, block))
        return in_blocks.block(epoch, block)

    in_blocks._together, in_blocks._ahead = 3, Ahead(draw, "cpu")
    assert len(in_blocks) == 4, "so that an epoch has a whole block, and one with a batch alone"
    for _ in range(5):  # into the next epoch
        in_blocks.next_batch()
    assert places == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_after_a_jump_what_was_prepared_is_not_taken():
    plain, ahead = sampler(), sampler()
    ahead._ahead = Ahead(plain.block, "cpu")
    ahead.next_batch()
    # The second batch of epoch 0 was prepared, not that of epoch 5.
    ahead.load_state_dict({"seed": 3, "epoch": 5, "step": 1})
    assert is_same(ahead.next_batch(), plain.batch(5, 1))
    assert is_same(ahead.next_batch(), plain.batch(5, 2))


@pytest.mark.gpu
def test_on_the_gpu_batches_ahead_are_those_of_their_places():
    ahead, plain = sampler("cuda"), sampler("cuda")
    ahead._together = plain._together = 2
    for epoch in range(2):
        for step, batch in enumerate(ahead):
            assert is_same(batch, plain.block(epoch, step // 2)[step % 2])
