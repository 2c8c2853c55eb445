"""The drawings of `cerp report`: numbers are where they belong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.report.axes import linear_axis, log_axis, rank_axis, zero_axis
from cerp.report.charts import Point, Reference, Series, line_chart
from cerp.report.heat import heat_map, sampled_vectors
from cerp.report.html import document, element, percent, tick_labels
from small_models import NUM_USERS, small_model


def test_a_linear_axis_has_round_ticks_and_places_values_between_them():
    axis = linear_axis([0.13, 0.31], 0, 100)
    assert axis.ticks == (0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
    assert axis.place(0.1) == 0
    assert axis.place(0.225) == pytest.approx(50)
    assert zero_axis([7, 9], 100, 0).ticks == (0, 2, 4, 6, 8, 10)


def test_a_logarithmic_axis_gives_equal_ratios_equal_distances():
    axis = log_axis([1_000, 100_000], 0, 112)
    # Two decades in 100 of the 112, with 6 on either side.
    assert axis.place(1_000) == pytest.approx(6)
    assert axis.place(10_000) == pytest.approx(56)
    assert axis.ticks == (1_000, 3_000, 10_000, 30_000, 100_000)


def test_a_rank_axis_has_a_tick_for_each_place():
    axis = rank_axis([1, 4], 0, 8)
    assert list(axis.ticks) == [1, 2, 3, 4]
    assert [axis.place(tick) for tick in axis.ticks] == [1, 3, 5, 7]


@given(st.lists(st.floats(1e-100, 1e100), min_size=1, max_size=5))
def test_every_value_is_on_its_axis(values: list[float]):
    for axis in (linear_axis(values, 0, 1), zero_axis(values, 0, 1), log_axis(values, 0, 1)):
        assert all(-1e-6 <= axis.place(value) <= 1 + 1e-6 for value in values)
        assert 2 <= len(axis.ticks) <= 6


def test_equal_values_have_an_axis_too():
    assert linear_axis([0, 0], 0, 1).ticks == linear_axis([0, 1], 0, 1).ticks
    assert linear_axis([-5], 0, 1).ticks == (-5, -4, -3, -2, -1, 0)
    assert log_axis([100], 0, 1).place(100) == pytest.approx(0.5)


def test_points_are_where_the_axes_put_them():
    points = [Point(0, 0, "first"), Point(10, 5, "last")]
    chart = line_chart("t", "x", "y", [Series("s", 0, points)])
    (line,) = chart.iter("polyline")
    # The plot goes from 54 to 520 - 14 across and from 336 - 52 up to 16.
    assert line.get("points") == "54.0,284.0 506.0,16.0"


def test_labels_of_equal_references_do_not_cover_each_other():
    chart = line_chart(
        "t",
        "x",
        "y",
        [Series("s", 0, [Point(0, 0, ""), Point(1, 1, "")])],
        references=[Reference("a", 0.5, "full"), Reference("b", 0.5, "floor")],
    )
    heights = [float(text.get("y", "")) for text in chart.iter("text") if text.text in ("a", "b")]
    assert abs(heights[0] - heights[1]) >= 15


def test_ticks_of_an_axis_have_equally_many_decimals():
    assert tick_labels([0, 0.05, 0.1]) == ["0", "0.05", "0.10"]
    assert tick_labels([-5, 0, 5]) == ["\N{MINUS SIGN}5", "0", "5"]
    assert tick_labels([500, 1_500, 2e6]) == ["500", "1.5k", "2M"]
    assert tick_labels([0, 2e-7]) == ["0", "2e\N{MINUS SIGN}07"]


def test_a_heat_map_has_a_cell_for_each_value_that_is_not_zero():
    values = np.array([[0.0, 1.0, -0.5], [0.0, 0.0, 0.01]])
    cells = {
        path.get("class"): path.get("d", "")
        for path in heat_map("t", ["a", "b"], values, largest=1.0).iter("path")
    }
    # Of six shades 1 is the darkest, 0.5 the third and 0.01 the lightest.
    assert set(cells) == {"plus level-6", "minus level-3", "plus level-1"}
    assert cells["plus level-6"].startswith("M1,0.05h")
    assert sum(path.count("M") for path in cells.values()) == 3


def test_labels_of_a_heat_map_are_text_of_the_page_and_told_in_full():
    chart = heat_map("t", ["user " + "x" * 99], np.ones((1, 16)), largest=1.0)
    (label,) = chart.iter("li")
    assert (label.text, label.get("title")) == ("user " + "x" * 99,) * 2
    assert list(chart.iter("text")) == []


def test_sampled_vectors_are_those_of_the_entities_named():
    model = small_model("mf")
    sampled = sampled_vectors(model)
    assert sampled is not None
    for name, vector in zip(*sampled, strict=True):
        kind, number = name.split()
        ids, first = (model.users, 0) if kind == "user" else (model.items, NUM_USERS)
        position = model.positions[first + ids.encode([int(number)])[0]]
        tables = model.embedding.tables
        rows = [table.index.rows(np.array([position]), 65)[0] for table in tables]
        np.testing.assert_array_equal(
            vector, sum(table.weight[row] for table, row in zip(tables, rows, strict=True))
        )
    assert sampled_vectors(small_model("propagated")) is None


def test_elements_keep_the_order_of_text_and_children():
    made = element("p", "a<", element("b", "c"), "d", None, "e", class_="x", data_y=1)
    assert document(made).splitlines()[1] == '<p class="x" data-y="1">a&lt;<b>c</b>de</p>'


def test_small_shares_have_one_digit_more():
    assert [percent(share) for share in (0.0123, 0.1234, None)] == ["1.23%", "12.3%", "\N{EN DASH}"]
