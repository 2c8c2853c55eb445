"""Parts of a search on several cores: the same answers, and threads as they were afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from cerp.assignment import nearest_rows, parts_on_cores
from cerp.assignment.parts_on_cores import blas_libraries, on_all_cores, torch_on_one_thread
from cerp.assignment.residual_kmeans import learn_codes

PARTS = [slice(start, start + 10) for start in range(0, 60, 10)]


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def blas_threads() -> set[int]:
    return {one["num_threads"] for one in blas_libraries().info()}


def test_what_parts_give_comes_in_their_order_and_threads_are_as_before():
    before = blas_threads()
    assert on_all_cores(lambda part: part.start, PARTS) == [0, 10, 20, 30, 40, 50]
    assert torch.get_num_threads() == 3
    assert blas_threads() == before


def test_parts_are_worked_on_together_each_on_one_thread():
    together = threading.Barrier(3, timeout=10)  # passed by three at a time or by nobody

    def work(_: slice) -> tuple[int, set[int]]:
        together.wait()
        return torch.get_num_threads(), blas_threads()

    assert on_all_cores(work, PARTS) == [(1, {1})] * 6


def test_parts_come_one_after_the_other_where_products_cannot_be_kept_on_one_thread(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(parts_on_cores, "blas_libraries", lambda: None)
    found = on_all_cores(lambda _: (threading.get_ident(), torch.get_num_threads()), PARTS)
    assert found == [(threading.get_ident(), 1)] * 6


def test_inside_work_on_one_thread_parts_have_the_threads_that_torch_had():
    together = threading.Barrier(3, timeout=10)
    with torch_on_one_thread():
        on_all_cores(lambda _: together.wait(), PARTS)
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_an_error_in_a_part_is_raised_and_threads_are_as_before():
    before = blas_threads()

    def fail(part: slice) -> None:
        if part.start == 30:
            raise ValueError("the fourth")

    with pytest.raises(ValueError, match="the fourth"):
        on_all_cores(fail, PARTS)
    assert (torch.get_num_threads(), blas_threads()) == (3, before)


def test_codes_of_many_threads_are_those_of_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(nearest_rows.CHUNK_BYTES, "cpu", 4096)  # so that there are many parts
    vectors = np.random.default_rng(5).normal(size=(700, 6))
    many = learn_codes(vectors, books=2, rows=20, iterations=6)
    torch.set_num_threads(1)
    one = learn_codes(vectors, books=2, rows=20, iterations=6)
    assert np.array_equal(many.codes, one.codes)
    assert np.array_equal(many.books, one.books)
    assert many.history == one.history
    assert many.error == one.error
