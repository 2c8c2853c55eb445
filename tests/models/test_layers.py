from __future__ import annotations

import pytest
import torch
from torch import nn

from cerp.models.layers import BatchNorm, linear, track_averages
from embedding_contract import seeded

ROWS = torch.randn(9, 4, generator=seeded()) * 3 + 1


def test_a_batch_is_normalised_as_in_torch_and_its_averages_are_noted():
    mine, theirs = BatchNorm(4), nn.BatchNorm1d(4)
    for _ in range(3):
        torch.testing.assert_close(mine(ROWS), theirs(ROWS))
    torch.testing.assert_close(mine.eval()(ROWS), theirs.eval()(ROWS))


@pytest.mark.parametrize("count", [0, 1])
def test_a_batch_too_small_for_a_variance_is_normalised_by_the_averages(count: int):
    norm = BatchNorm(4)
    norm(ROWS)
    expected = norm.eval()(ROWS)[:count]
    torch.testing.assert_close(norm.train()(ROWS[:count]), expected)


def test_averages_can_be_held():
    norm = BatchNorm(4)
    track_averages(nn.Sequential(norm), tracks=False)
    torch.testing.assert_close(norm(ROWS).mean(dim=0), torch.zeros(4), atol=1e-6, rtol=0)
    assert norm.running_mean.tolist() == [0] * 4
    assert norm.running_var.tolist() == [1] * 4


def test_linear_layers_draw_from_their_generator_alone():
    before = torch.get_rng_state()
    first, second = (linear(30, 20, seeded(3)) for _ in "ab")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.weight, second.weight)
    assert first.weight.abs().max().item() == pytest.approx((6 / 50) ** 0.5, rel=0.02)
    assert not first.bias.any()
