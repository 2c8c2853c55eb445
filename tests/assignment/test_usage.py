"""Stored values counted entity by entity, against sets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from cerp.assignment import usage
from cerp.assignment.index import Combine, Index
from cerp.assignment.usage import Mask, Usage, count_usage, rows_of_entities

ENTITIES, DIM = 100, 8
INDICES = (Index("modulo", 12), Index("quotient", 10), Index("scaled", 12))
"""Into tables of 12 rows; divided by 10, entities leave two rows unused."""


def masks(seed: int, tables: int) -> list[Mask]:
    rng = np.random.default_rng(seed)
    return list(rng.random((tables, 12, DIM)) < rng.choice([0.02, 0.2, 0.7]))


def counted(masks: list[Mask], combine: Combine = "sum", left_out: int | None = None) -> Usage:
    rows = rows_of_entities(INDICES[: len(masks)], ENTITIES, left_out=left_out)
    return count_usage(masks, rows, full_table=ENTITIES * DIM, combine=combine)


def row_numbers(k: int) -> list[int]:
    return [k % 12, k // 10, k * 12 // 100]


@pytest.mark.parametrize("tables", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_sums_agree_with_sets_of_places(seed: int, tables: int):
    given = masks(seed, tables)
    places = [
        [set(np.flatnonzero(mask[row])) for mask, row in zip(given, row_numbers(k), strict=False)]
        for k in range(ENTITIES)
    ]
    unions = [len(set().union(*own)) for own in places]
    shared = [len(one & other) / DIM for own in places for one, other in combinations(own, 2)]
    found = counted(given)
    assert found.stored_values == sum(mask.sum() for mask in given)
    assert found.sparsity == 1 - found.stored_values / 800
    assert found.average_dimension == pytest.approx(np.mean(unions))
    assert found.overlap == (pytest.approx(np.mean(shared)) if tables > 1 else None)
    assert found.empty_entities == unions.count(0)
    assert found.few_values == sum(size <= 3 for size in unions)
    assert found.dimension_deviation == pytest.approx(np.std(unions))
    assert found.dead_rows == (0 if tables == 1 else 2)
    assert found.empty_rows == sum(not row.any() for mask in given for row in mask)


def test_products_need_every_factor_and_concatenations_take_all():
    given = masks(1, 2)
    rows = [row_numbers(k)[:2] for k in range(ENTITIES)]
    both = [int((given[0][p] & given[1][q]).sum()) for p, q in rows]
    assert counted(given, "product").average_dimension == pytest.approx(np.mean(both))
    assert counted(given, "product").empty_entities == both.count(0)
    sizes = [int(given[0][p].sum() + given[1][q].sum()) for p, q in rows]
    assert counted(given, "concat").average_dimension == pytest.approx(np.mean(sizes))
    assert counted(given, "product").overlap is counted(given, "concat").overlap is None


def test_an_entity_that_is_left_out_does_not_count():
    # Positions 90 to 99 alone use the last row of a quotient by 10.
    full = [np.ones((12, DIM), dtype=bool), np.zeros((12, DIM), dtype=bool)]
    full[1][9] = True
    assert counted(full).overlap == pytest.approx(10 / 100)
    assert counted(full, left_out=95).overlap == pytest.approx(9 / 99)


def test_counts_do_not_depend_on_how_many_are_looked_at_together(monkeypatch: pytest.MonkeyPatch):
    whole = counted(masks(2, 2), left_out=3)
    monkeypatch.setattr(usage, "ENTITIES_AT_ONCE", 7)
    assert counted(masks(2, 2), left_out=3) == whole
