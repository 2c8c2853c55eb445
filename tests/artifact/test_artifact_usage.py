"""What is counted of a model file; tests/assignment/test_usage.py has the counting itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cerp.artifact import ComposedEmbedding, usage
from golden_model import golden_model
from small_models import small_model


def test_usage_of_the_golden_model():
    # Positions 0..4 have the rows 0 1 2 0 1 of P, which store 3 0 1 3 0 of four values, and the
    # rows 0 0 1 1 2 of Q, which store all four.
    found = usage(golden_model())
    assert found.stored_values == 16
    assert found.sparsity == pytest.approx(1 - 16 / 20)
    assert found.average_dimension == 4
    assert found.overlap == pytest.approx((3 + 0 + 1 + 3 + 0) / (5 * 4))
    assert (found.empty_entities, found.dead_rows, found.empty_rows) == (0, 0, 1)


def test_usage_of_products_concatenations_and_propagated_tables():
    tables = golden_model().embedding.tables
    product = replace(golden_model(), embedding=ComposedEmbedding(tables, "product"))
    # A factor that is not there makes a place zero: what P stores, entity by entity.
    assert usage(product).average_dimension == pytest.approx((3 + 0 + 1 + 3 + 0) / 5)
    assert usage(product).empty_entities == 2
    concat = replace(golden_model(), embedding=ComposedEmbedding(tables, "concat"))
    assert usage(concat).average_dimension == pytest.approx(4 + 7 / 5)
    assert usage(concat).overlap is None
    assert usage(small_model("propagated")).average_dimension == 12
