"""Accuracy against budget: NDCG@10 over stored values and over bytes."""

from __future__ import annotations

from collections.abc import Callable

from cerp.report.axes import log_axis, zero_axis
from cerp.report.charts import Point, Reference, Series, legend, line_chart
from cerp.report.findings import Findings
from cerp.report.html import Section, element, metric, remark
from cerp.report.runs import Model


def accuracy(found: Findings) -> Section:
    """NDCG@10 over stored values and over bytes of the file."""
    by_values = _budget_series(found, lambda model: model.values)
    by_bytes = _budget_series(found, lambda model: model.file_bytes)
    if not by_values:
        return [remark("No model has test figures.")]
    references = _references(found)
    drawn = [("stored values", by_values), ("bytes of the file", by_bytes)]
    charts = [
        element(
            "figure",
            element("figcaption", f"NDCG@10 over {what} (logarithmic)"),
            line_chart(
                f"NDCG@10 over {what}",
                what,
                "NDCG@10",
                series,
                references=references,
                x_axis=log_axis,
                y_axis=zero_axis,
            ),
        )
        for what, series in drawn
        if series
    ]
    return [element("div", *charts, class_="pair"), legend(by_values)]


def _budget_series(found: Findings, size: Callable[[Model], int | None]) -> list[Series]:
    """A series for each run, from its smallest model to its largest."""
    made = []
    for run in found.runs:
        sized = [(size(model), model) for model in run.models if model.test is not None]
        points = [
            Point(x, model.test["ndcg@10"], f"{metric(model.test['ndcg@10'])} at {x:,}")
            for x, model in sorted(sized, key=lambda one: one[0] or 0)
            if x and model.test is not None
        ]
        if points:
            made.append(Series(run.label, found.style(run), points))
    return sorted(made, key=lambda series: series.style)


def _references(found: Findings) -> list[Reference]:
    lines = [
        Reference(run.label.replace("full", "full size", 1), model.test["ndcg@10"], "full")
        for run in found.runs
        if run.is_full
        for model in run.models
        if model.test is not None
    ]
    if found.popularity is not None:
        lines.append(Reference("popularity", found.popularity.ndcg, "floor"))
    return lines
