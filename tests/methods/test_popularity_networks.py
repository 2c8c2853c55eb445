from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from cerp.methods.popularity_networks import BySide, Sides

IDS = torch.tensor([4, 0, 3, 1, 0])  # entities 0 1 2 are users
ROWS = torch.arange(10.0).view(5, 2)


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, rows: Tensor, offsets: Tensor) -> Tensor:
        return rows * self.factor + offsets[:, None]


def test_rows_are_split_by_side_in_the_order_they_come_in():
    of_users, of_items = Sides.of(IDS, num_users=3).split(ROWS)
    assert of_users.tolist() == [[2, 3], [6, 7], [8, 9]]
    assert of_items.tolist() == [[0, 1], [4, 5]]


@given(st.lists(st.integers(0, 9)), st.integers(0, 10))
def test_joining_takes_splitting_back(ids: list[int], num_users: int):
    sides = Sides.of(torch.tensor(ids, dtype=torch.int64), num_users)
    rows = torch.arange(3.0 * len(ids)).view(-1, 3)
    assert torch.equal(sides.join(*sides.split(rows)), rows)


def test_all_entities_are_users_first():
    known, found = Sides(3, 2), Sides.of(torch.arange(5), num_users=3)
    assert (known.users, known.items) == (found.users, found.items)
    for mine, other in zip(known.split(ROWS), found.split(ROWS), strict=True):
        assert torch.equal(mine, other)
    assert torch.equal(known.join(*known.split(ROWS)), ROWS)


def test_each_row_goes_through_the_module_of_its_side_and_its_gradient_back():
    rows = ROWS.clone().requires_grad_()
    by_side = BySide(Times(10.0), Times(-1.0))
    result = by_side(Sides.of(IDS, num_users=3), rows, torch.arange(5))
    assert result.tolist() == [[0, -1], [21, 31], [-2, -3], [63, 73], [84, 94]]
    result.sum().backward()
    assert rows.grad[:, 0].tolist() == [-1, 10, -1, 10, 10]
