"""The paper's figures, drawn with the tools of all other pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import mean
from xml.etree.ElementTree import Element

import numpy as np

from cerp.comparison.metrics import MAIN_METRIC
from cerp.pages.axes import name_axis, zero_axis
from cerp.pages.charts import Frame, Point, Reference, Series, line_chart
from cerp.pages.heat_map import pattern_map
from cerp.pages.numbers import metric, metric_name

FRAME = Frame(width=460, height=300, left=56, right=24, top=34, bottom=58, has_y_label=True)


def sensitivity(
    title: str,
    setting: str,
    points: Sequence[tuple[str, Sequence[float]]],
    printed: Mapping[str, float],
) -> Element:
    """`MAIN_METRIC` by the values of a setting: a dot for each seed, a line from mean to mean.

    Values stand at equal distances, as the paper has them; one without seeds
    is on the axis, and no line goes past it. ``printed`` are figures of the
    paper: horizontal lines with names.
    """
    dots = [
        Point(number, value, f"{name}: {metric(value)}")
        for number, (name, seeds) in enumerate(points, 1)
        for value in seeds
    ]
    shown = metric_name(MAIN_METRIC)
    return line_chart(
        f"{shown} by {setting}, {title}",
        setting,
        shown,
        [*_stretches(points), Series("seed", 0, dots, has_line=False)],
        references=[
            Reference(f"{name}: {metric(value)}", value, "full") for name, value in printed.items()
        ],
        x_axis=name_axis([name for name, _ in points]),
        # From zero, so that a small difference looks small.
        y_axis=zero_axis,
        frame=FRAME,
    )


def _stretches(points: Sequence[tuple[str, Sequence[float]]]) -> list[Series]:
    """Lines through the means of values that follow each other and have seeds."""
    numbered = list(enumerate(points, 1))
    stretches = [
        [
            Point(number, mean(seeds), f"{name}: {metric(mean(seeds))}")
            for number, (name, seeds) in stretch
        ]
        for is_measured, stretch in groupby(numbered, key=lambda one: bool(one[1][1]))
        if is_measured
    ]
    return [Series("mean", 0, stretch, has_markers=False) for stretch in stretches]


def heatmap(title: str, names: Sequence[str], rows: Sequence[str]) -> Element:
    """A row of cells for each vector, given as a text of 0 and 1: filled where it is not zero."""
    return pattern_map(title, names, np.array([[bit == "1" for bit in row] for row in rows]))
