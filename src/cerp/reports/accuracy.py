"""Accuracy against budget: the metric of the report over stored values and over bytes."""

from __future__ import annotations

from collections.abc import Callable

from cerp.pages.axes import log_axis, zero_axis
from cerp.pages.charts import Point, Reference, Series, legend, line_chart
from cerp.pages.html import Parts, element, remark
from cerp.pages.numbers import metric, metric_name
from cerp.reports.findings import Findings
from cerp.reports.finished_runs import Model

HULL = "; the line without markers joins what no smaller file is as good as"


def accuracy(found: Findings) -> Parts:
    """Accuracy on the test part over stored values and over bytes of the file."""
    by_values = _budget_series(found, lambda model: model.facts.paper_count)
    by_bytes = _budget_series(found, lambda model: model.facts.file_bytes)
    if not by_values and not by_bytes:
        return [remark("No model has test figures.")]
    references = _references(found)
    hull = _hull(by_bytes)
    drawn = [("stored values", by_values, ""), ("file bytes", [*hull, *by_bytes], HULL)]
    shown = metric_name(found.metric)
    charts = [
        element(
            "figure",
            element("figcaption", f"{shown} over {what} (logarithmic){told if hull else ''}"),
            line_chart(
                f"{shown} over {what}",
                what,
                shown,
                series,
                references=references,
                x_axis=log_axis,
                y_axis=zero_axis,
            ),
        )
        for what, series, told in drawn
        if series
    ]
    return [element("div", *charts, class_="pair"), legend(by_bytes or by_values)]


def _hull(series: list[Series]) -> list[Series]:
    """A line through the points that no smaller file is as good as, where there are several."""
    points = sorted(
        (point for line in series for point in line.points), key=lambda one: (one.x, -one.y)
    )
    best: list[Point] = []
    for point in points:
        if not best or point.y > best[-1].y:
            best.append(point)
    if len(series) < 2 or len(best) < 2:
        return []
    style = max(line.style for line in series) + 1
    return [Series("best so far", style, best, has_markers=False)]


def _budget_series(found: Findings, size: Callable[[Model], int | None]) -> list[Series]:
    """A series for each run, from its smallest model to its largest."""
    made = []
    for run in found.runs:
        sized = [(size(model), model) for model in run.models if model.test is not None]
        points = [
            Point(x, model.test[found.metric], f"{metric(model.test[found.metric])} at {x:,}")
            for x, model in sorted(sized, key=lambda one: one[0] or 0)
            if x and model.test is not None
        ]
        if points:
            made.append(Series(run.label, found.style(run), points))
    return sorted(made, key=lambda series: series.style)


def _references(found: Findings) -> list[Reference]:
    lines = [
        Reference(run.label.replace("full", "full size", 1), model.test[found.metric], "full")
        for run in found.runs
        if run.is_full
        for model in run.models
        if model.test is not None
    ]
    if found.popularity is not None:
        floor = found.popularity.mean[found.metric]
        lines.append(Reference("popularity", floor, "floor"))
    return lines
