"""The drawings of all pages: numbers are where they belong."""

from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.pages.axes import linear_axis, log_axis, name_axis, rank_axis, zero_axis
from cerp.pages.charts import FONT_SIZE, Point, Reference, Series, line_chart
from cerp.pages.heat_map import heat_map, pattern_map
from cerp.pages.html import document, element
from cerp.pages.numbers import metric_name, percent, tick_labels
from cerp.pages.svg import standalone, text_width
from cerp.reports.heat import sampled_vectors
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
    first, second = (box_of(text) for text in chart.iter("text") if text.text in ("a", "b"))
    assert first[1] <= second[0] or second[1] <= first[0] or abs(first[2] - second[2]) >= FONT_SIZE


def box_of(text: Element) -> tuple[float, float, float]:
    """Left and right end of a label, and its baseline."""
    x, y = float(text.get("x", "")), float(text.get("y", ""))
    width = text_width(text.text or "", FONT_SIZE)
    left = {"start": x, "middle": x - width / 2, "end": x - width}[text.get("text-anchor", "")]
    return left, left + width, y


@pytest.mark.parametrize("anchor", ["start", "end"])
def test_the_label_of_a_reference_is_where_the_curve_is_not(anchor: str):
    # Above the line and then below it: below the line's start, there is nothing.
    scores = [0.0947, 0.0959, 0.0941, 0.0769, 0.0733][:: 1 if anchor == "start" else -1]
    points = [Point(number, score, "") for number, score in enumerate(scores)]
    paper = Reference("paper's table 2", 0.0831, "full")
    chart = line_chart("t", "x", "y", [Series("s", 0, points)], references=[paper])
    [label] = [text for text in chart.iter("text") if text.get("class") == "reference-label"]
    [line] = [rule for rule in chart.iter("line") if rule.get("class") == "reference full"]
    assert label.get("text-anchor") == anchor
    assert float(label.get("y", "")) > float(line.get("y1", ""))


def test_points_of_a_series_without_a_line_all_have_markers():
    points = [Point(number, number, str(number)) for number in range(40)]
    chart = line_chart("t", "x", "y", [Series("s", 0, points, has_line=False)])
    assert len(list(chart.iter("path"))) == 40
    assert list(chart.iter("polyline")) == []


def test_names_without_room_beside_each_other_take_turns_on_two_lines():
    def heights(names: list[str]) -> set[str | None]:
        points = [Point(number, 1, "") for number in range(1, len(names) + 1)]
        chart = line_chart("t", "x", "y", [Series("s", 0, points)], x_axis=name_axis(names))
        return {text.get("y") for text in chart.iter("text") if text.text in names}

    assert len(heights(["a", "b", "c"])) == 1
    assert len(heights(["long-tailed thresholds" * 3, "b", "c"])) == 2


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


def test_a_pattern_fills_the_entries_that_are_not_zero():
    drawn = pattern_map("Ten", ["user 1", "item 2"], np.array([[0, 1, 1, 0], [0, 0, 0, 1]]) > 0)
    [path] = drawn.iter("path")
    corners = [part.split("h")[0] for part in path.get("d", "").split("M")[1:]]
    assert corners == ["1,0.05", "2,0.05", "3,1.05"]


@given(st.lists(st.text("abmwW01-. 東", max_size=40), min_size=1, max_size=4))
def test_every_name_of_a_pattern_fits_beside_it_or_is_cut_and_told_in_full(names: list[str]):
    drawn = pattern_map("Ten", names, np.ones((len(names), 2), dtype=bool))
    for label, name in zip(drawn.iter("text"), names, strict=True):
        shown = "".join(label.itertext()) if not len(label) else label[0].tail or ""
        assert text_width(shown, FONT_SIZE) <= float(label.get("x", ""))
        assert shown == name or (shown[:-1] == name[:19] and label[0].text == name)


def test_a_drawing_in_a_file_of_its_own_has_a_size_and_its_style():
    chart = line_chart("t", "x", "y", [Series("s", 0, [Point(0, 0, ""), Point(1, 1, "")])])
    root = fromstring(standalone(chart))
    assert (root.tag, root.get("width")) == ("{http://www.w3.org/2000/svg}svg", "520")
    assert "--part-0" in (root[0].text or "")
    assert chart.get("xmlns") is None


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


def test_metrics_have_the_names_of_the_field():
    names = [metric_name(name) for name in ("ndcg@10", "recall@20", "hit_rate@5")]
    assert names == ["NDCG@10", "Recall@20", "Hit rate@5"]
