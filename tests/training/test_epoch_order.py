"""The order of an epoch: each number once, wherever one begins to ask, and nothing to be seen."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cerp.training import epoch_order as module
from cerp.training.epoch_order import EpochOrder, ShuffledOrder, TurnedGrid, epoch_order

COUNT = 100_000
STEP = 1000


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def whole(order: EpochOrder, count: int) -> Tensor:
    return order.at(slice(0, count))


@given(count=st.integers(1, 400), seed=st.integers(0, 99))
def test_a_turned_grid_has_every_number_once(count: int, seed: int):
    order = TurnedGrid(count, drawn(seed))
    assert whole(order, count).sort().values.tolist() == list(range(count))


@given(start=st.integers(0, 99), length=st.integers(1, 99), together=st.integers(1, 50))
def test_any_places_can_be_asked_for(start: int, length: int, together: int):
    expected = whole(TurnedGrid(100, drawn(0)), 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TOGETHER", together)
        order = TurnedGrid(100, drawn(0))
        for places in (slice(start, start + length), slice(0, 10), slice(5, 15)):
            assert order.at(places).tolist() == expected[places].tolist()


def test_another_draw_is_another_order():
    orders = [whole(TurnedGrid(COUNT, drawn(seed)), COUNT) for seed in (0, 0, 1)]
    assert torch.equal(orders[0], orders[1])
    # Of two random orders one place agrees on average.
    assert (orders[0] == orders[2]).sum() < 10


@pytest.mark.parametrize("seed", range(3))
def test_numbers_next_to_each_other_are_spread_over_the_steps_as_by_chance(seed: int):
    """Of 2,000 numbers 20 fall into each of 100 steps, with a variance of 19.4."""
    order = whole(TurnedGrid(COUNT, drawn(seed)), COUNT)
    for first in (0, 31_622, COUNT - 2000):
        is_one = (order >= first) & (order < first + 2000)
        counts = is_one.view(-1, STEP).sum(dim=1)
        chi_square = ((counts - 20) ** 2 / 19.4).sum()
        assert 40 < chi_square < 170  # mean 99, standard deviation 14


@pytest.mark.parametrize("lag", [1, 2, 316, 317])
def test_numbers_some_places_apart_have_nothing_to_do_with_each_other(lag: int):
    order = whole(TurnedGrid(COUNT, drawn(3)), COUNT).double()
    together = torch.corrcoef(torch.stack([order[:-lag], order[lag:]]))[0, 1]
    assert together.abs() < 5 / COUNT**0.5
    distances = (order[lag:] - order[:-lag]).abs()
    # Two random numbers are less than 1% of the count apart in 1.99% of all cases.
    near = (distances < COUNT / 100).double().mean()
    assert near.item() == pytest.approx(0.0199, abs=5 * (0.0199 / COUNT) ** 0.5)


def test_few_are_shuffled_as_ever_and_many_are_not_held(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST_SHUFFLED", 50)
    few, many = epoch_order(50, drawn(7)), epoch_order(51, drawn(7))
    assert isinstance(few, ShuffledOrder)
    expected = torch.randperm(50, generator=drawn(7), dtype=torch.int32)
    assert torch.equal(whole(few, 50), expected)
    assert isinstance(many, TurnedGrid)
