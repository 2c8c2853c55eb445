"""Sums of rows are those of plain lookups."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st

from cerp.models.embeddings.row_sums import (
    adds_fast,
    sums_by_adding,
    sums_of_pruned_rows,
    sums_of_rows,
    weighted_sums_of_rows,
)
from cerp.pruning.functional import soft_threshold


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


@given(
    st.integers(1, 5), st.sampled_from([1, 8, 33]), st.sampled_from([1.0, 1.7]), st.integers(0, 99)
)
def test_sums_of_pruned_rows_are_those_of_pruning_first_to_the_bit(books, dim, ceiling, seed):
    generator = torch.Generator().manual_seed(seed)
    weight, threshold = torch.randn(2, 7 * books, dim, generator=generator)
    learned = (weight.requires_grad_(), threshold.requires_grad_())
    shift, most = torch.tensor(-0.5), torch.tensor(ceiling)
    rows = torch.randint(7 * books, (3, 10, books), generator=generator)
    gradient = torch.randn(3, 10, dim, generator=generator)
    expected = sums_of_rows(soft_threshold(weight, threshold + shift, most), rows)
    wanted = torch.autograd.grad(expected, learned, gradient)
    found = sums_of_pruned_rows(weight, threshold, shift, most, rows)
    assert torch.equal(found, expected)
    for ours, theirs in zip(torch.autograd.grad(found, learned, gradient), wanted, strict=True):
        assert torch.equal(ours, theirs)


def test_sums_by_adding_are_those_of_lookups():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(9, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    rows = torch.randint(9, (3, 5, 2), generator=generator).int()
    assert torch.equal(sums_by_adding(weight, rows), F.embedding(rows, weight).sum(-2))
    assert torch.autograd.gradcheck(lambda one: sums_by_adding(one, rows), weight)
    assert torch.autograd.gradgradcheck(lambda one: sums_by_adding(one, rows).square(), weight)
    with pytest.raises(IndexError):
        sums_by_adding(weight, rows + 9)
    assert not adds_fast(weight)  # on a CPU


def test_a_lookup_can_be_gone_back_through_twice():
    weight = torch.tensor([[1.0, -2.0], [0.1, 3.0]], requires_grad=True)
    threshold = torch.zeros(2, 2, requires_grad=True)  # cuts off 1/2
    found = sums_of_pruned_rows(
        weight, threshold, torch.tensor(0.0), torch.tensor(1.0), torch.tensor([[0, 1], [1, 1]])
    )
    assert found.tolist() == [[0.5, 1.0], [0.0, 5.0]]
    for _ in range(2):
        by_weight, by_threshold = torch.autograd.grad(
            found.sum(), (weight, threshold), retain_graph=True
        )
        assert by_weight.tolist() == [[1.0, 1.0], [0.0, 3.0]]
        assert by_threshold.tolist() == [[-0.25, 0.25], [0.0, -0.75]]


def test_shapes_are_those_of_the_row_numbers():
    weight = torch.randn(6, 3)
    assert sums_of_rows(weight, torch.zeros(2, 5, 4, dtype=torch.long)).shape == (2, 5, 3)
    assert sums_of_rows(weight, torch.zeros(0, 4, dtype=torch.long)).shape == (0, 3)


@pytest.mark.parametrize("row", [-1, 6])
def test_rows_that_are_not_there_are_refused(row: int):
    weight, rows = torch.randn(6, 3), torch.tensor([[0, row]])
    with pytest.raises(IndexError, match="out of range"):
        sums_of_rows(weight, rows)
    with pytest.raises(IndexError, match="out of range"):
        sums_of_pruned_rows(weight, weight, torch.tensor(0.0), torch.tensor(1.0), rows)


@given(st.integers(1, 4), st.integers(0, 30), st.sampled_from([1, 8, 33]), st.integers(0, 99))
def test_weighted_sums_and_gradients_are_those_of_lookups(books, count, dim, seed):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(9, dim, generator=generator, dtype=torch.float64, requires_grad=True)
    rows = torch.randint(9, (count, books), generator=generator)
    shares = torch.rand(count, generator=generator, dtype=torch.float64)
    places = torch.randint(6, (count,), generator=generator)
    gradient = torch.randn(6, dim, generator=generator, dtype=torch.float64)
    each = F.embedding(rows, weight).sum(-2) * shares[:, None]
    expected = torch.zeros(6, dim, dtype=torch.float64).index_add(0, places, each)
    found = weighted_sums_of_rows(weight, rows, shares, places, 6)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    by_rows, by_lookups = (
        torch.autograd.grad(sums, weight, gradient)[0] for sums in (found, expected)
    )
    torch.testing.assert_close(by_rows, by_lookups, rtol=0, atol=1e-13)


def test_weighted_sums_refuse_rows_that_are_not_there():
    for row in (-1, 2):
        with pytest.raises(IndexError, match="out of range"):
            weighted_sums_of_rows(
                torch.ones(2, 3), torch.tensor([[0, row]]), torch.ones(1), torch.tensor([0]), 1
            )
