"""Sums of rows are those of plain lookups."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st

from cerp.models.embeddings.row_sums import sums_of_rows


@given(st.integers(1, 5), st.integers(1, 40), st.sampled_from([1, 3, 8, 33]), st.integers(0, 99))
def test_sums_and_gradients_are_those_of_lookups_to_the_bit(books, count, dim, seed):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(7 * books, dim, generator=generator, requires_grad=True)
    numbers = torch.randint(7, (count, books), generator=generator)
    gradient = torch.randn(count, dim, generator=generator)
    parts = zip(numbers.unbind(1), weight.split(7), strict=True)
    first, *others = [F.embedding(rows, book) for rows, book in parts]
    for part in others:
        first = first + part
    (wanted,) = torch.autograd.grad(first, weight, gradient)
    found = sums_of_rows(weight, numbers + 7 * torch.arange(books))
    assert torch.equal(found, first)
    assert torch.equal(torch.autograd.grad(found, weight, gradient)[0], wanted)


def test_shapes_are_those_of_the_row_numbers():
    weight = torch.randn(6, 3)
    assert sums_of_rows(weight, torch.zeros(2, 5, 4, dtype=torch.long)).shape == (2, 5, 3)
    assert sums_of_rows(weight, torch.zeros(0, 4, dtype=torch.long)).shape == (0, 3)


@pytest.mark.parametrize("row", [-1, 6])
def test_rows_that_are_not_there_are_refused(row: int):
    with pytest.raises(IndexError, match="out of range"):
        sums_of_rows(torch.randn(6, 3), torch.tensor([[0, row]]))
