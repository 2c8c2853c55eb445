"""How many values a number of bytes has room for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cerp import methods
from cerp.artifact import Encoding, table_bytes
from cerp.assignment.ordering import order
from cerp.choices import ValuePrecision
from cerp.config import Config, RunOptions
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError
from cerp.export.size_limit import BITS
from cerp.export.to_arrays import composed
from cerp.methods.base import Context, Method
from cerp.sizing.precision_plan import precision_plan
from cerp.sizing.size_search import CLOSE_ENOUGH, SizeSearch

SPLITS = synthetic(120, 80, 1500).split(seed=0)
POSITIONS = order(SPLITS.train, "degree")
FULL = SPLITS.num_entities * 16
SHIPPED = ("cerp", "hash", "magnitude", "pep", "qr", "ud")


def case(name: str, **changes: object) -> tuple[Method, Context]:
    method = methods.method(name)
    config = replace(Config(backbone="mf", dim=16, method=name), **changes)
    positions = POSITIONS if method.is_ordered and config.assignment == "hash" else None
    return method, Context(SPLITS, config, RunOptions(quiet=True), (), positions)


def bytes_of(
    method: Method, context: Context, values: ValuePrecision, loosest: int, limit: int
) -> int:
    made = method.placeholder(context.with_limits(max(limit, loosest)), limit)
    tables = sum(table_bytes(table.stored)[values] for table in composed(made).tables)
    # The order of 200 entities: 200 - 2^p ranks reach plane p, in all 1,345 bits.
    return tables + (0 if context.positions is None else 169)


def bisected(taken: Callable[[int], int], smallest: int, size: int, values: str) -> int:
    """Every step built and measured."""
    low, high = smallest, min(8 * size // BITS[values], FULL) + 1
    while high - low > max(1, CLOSE_ENOUGH * low):
        middle = (low + high) // 2
        low, high = (middle, high) if taken(middle) <= size else (low, middle)
    return low


@pytest.mark.parametrize("name", SHIPPED)
def test_the_smallest_limit_is_the_first_that_the_method_takes(name: str):
    method, context = case(name)
    smallest = SizeSearch(method, context).smallest
    # A value for each codebook; a row; 200 rows of a value; 14 + ceil(200 / 14) rows.
    known = {"hash": 16, "qr": 29 * 16, "ud": 200}
    assert smallest == known.get(name, 2)
    if smallest > 2:
        with pytest.raises(ConfigError, match="too small"):
            method.placeholder(context.with_limits(smallest - 1), smallest - 1)


def test_learned_codes_are_weighed_with_the_values():
    method, context = case("cerp", assignment="learned", codebooks=4, buckets=20)
    search = SizeSearch(method, context)
    made = composed(method.placeholder(context.with_limits(400), 400))
    tables = sum(table_bytes(table.stored, is_random=True)["int8"] for table in made.tables)
    # 5 bits tell 20 rows apart: 125 bytes for 200 entities, in each of 4 books.
    assert search.bytes_at(400, "int8") == tables + 4 * 125


@pytest.mark.parametrize("values", ["fp16", "int8", "int4"])
@pytest.mark.parametrize("name", SHIPPED)
def test_the_largest_limit_is_where_bisection_ends(name: str, values: str):
    method, context = case(name)
    search = SizeSearch(method, context)
    for size in (1300, 1700, 2500):
        for loosest in (0, 1500):
            taken = partial(bytes_of, method, context, values, loosest)
            found = search.largest_limit(size, values, loosest=loosest)
            assert found == bisected(taken, search.smallest, size, values)


@example(size=3823, loosest=0, near=0)
@given(size=st.integers(1000, 9000), loosest=st.integers(0, FULL), near=st.integers(0, FULL))
@settings(max_examples=60, deadline=None)
def test_wherever_the_search_begins_the_limit_fits_and_the_next_does_not(
    size: int, loosest: int, near: int
):
    method, context = case("cerp")
    found = SizeSearch(method, context).largest_limit(size, "int8", loosest=loosest, near=near)
    taken = partial(bytes_of, method, context, "int8", loosest)
    most = min(FULL, size)  # of a byte each
    last = found + max(1, int(CLOSE_ENOUGH * found))
    assert taken(found) <= size
    # Almost whole tables take less than those with gaps, so that a limit further on may fit again.
    assert last > most or any(taken(limit) > size for limit in range(found + 1, last + 1))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_refusal_names_the_bytes_of_the_smallest_placeholder(name: str):
    method, context = case(name)
    smallest = SizeSearch(method, context).smallest
    least = min(
        bytes_of(method, context, values, 0, smallest) for values in ("fp16", "int8", "int4")
    )
    assert precision_plan(method, context, f"{least}B")
    with pytest.raises(ConfigError, match=f"smallest possible takes {least}$"):
        precision_plan(method, context, f"{least - 1}B")


def test_few_placeholders_are_built(monkeypatch: pytest.MonkeyPatch):
    method, context = case("cerp")
    limits: list[int] = []
    placeholder = method.placeholder

    def noted(context: Context, limit: int) -> object:
        limits.append(limit)
        return placeholder(context, limit)

    monkeypatch.setattr(method, "placeholder", noted)
    precision_plan(method, context, "2KB")
    assert len(limits) < 40  # plain bisection: about 190
    assert max(limits) < FULL


def test_a_file_limit_leaves_room_for_vectors_shorter_than_ten():
    method, context = case("ud", dim=4, max_file_size="9KB")
    (candidate, *_) = precision_plan(method, context, "9KB")
    assert candidate.encoding == Encoding("fp16")
    assert candidate.limit == 200 * 4


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.1, 0.3, 0.8, 0.95])
@pytest.mark.parametrize("rows", [20, 1200])
def test_a_random_mask_has_its_size_without_a_search_for_repeats(rows: int, share: float):
    mask = np.random.default_rng(0).random((rows, 128)) < share
    assert table_bytes(mask, is_random=True) == table_bytes(mask)
