"""Training curves: small charts of what a run wrote after every epoch."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from cerp.pages.axes import AxisOf, linear_axis, zero_axis
from cerp.pages.charts import SMALL, Mark, Point, Series, legend, line_chart
from cerp.pages.html import Parts, element, remark
from cerp.pages.numbers import metric_name
from cerp.reports.findings import Findings
from cerp.reports.finished_runs import FinishedRun

PANELS: dict[str, tuple[str, AxisOf]] = {
    "loss": ("loss, with \N{GREEK SMALL LETTER GAMMA} times the penalty", linear_axis),
    "sparsity": ("pruned share of the full table", linear_axis),
    "gamma": ("\N{GREEK SMALL LETTER GAMMA}, weight of the penalty", zero_axis),
    "penalty": ("penalty, mean over users and items", linear_axis),
    "mean_threshold": ("mean threshold", linear_axis),
}
"""What is drawn, where a stage has it: its title and its axis. The metric on validation follows."""
STARTED = "pruning_started"
"""What the rows of a stage have from the epoch in which it pruned its first entry."""
MOST_POINTS = 200
"""A curve of more epochs is thinned out: a screen has no more pixels for it."""


def training(found: Findings) -> Parts:
    """The curves of every run that has them."""
    drawn = [panels for run in found.runs if (panels := curve_panels(run)) is not None]
    missing = [run.label for run in found.runs if not run.curves]
    if missing:
        drawn.append(remark(f"Without curves: {', '.join(missing)}."))
    return drawn


def curve_panels(run: FinishedRun) -> Element | None:
    """A chart for each quantity, a line for each stage; None for a run without curves."""
    judged = f"valid_{run.config.selection_metric}"
    title_of_judged = f"{metric_name(run.config.selection_metric)} on validation"
    panels = PANELS | {judged: (f"{title_of_judged}{_how_often(run)}", zero_axis)}
    lines = {name: _lines(run, name) for name in panels}
    charts = [
        element(
            "figure",
            element("figcaption", title),
            line_chart(
                f"{title}, {run.label}",
                "epoch",
                title,
                lines[name],
                marks=_marks(run, name),
                x_axis=zero_axis,
                y_axis=axis,
                frame=SMALL,
            ),
        )
        for name, (title, axis) in panels.items()
        if lines[name]
    ]
    if not charts:
        return None
    stages = [Series(stage, style, []) for style, stage in enumerate(run.curves)]
    return element(
        "div",
        element("h3", run.label),
        legend(stages) if len(stages) > 1 else None,
        element("div", *charts, class_="panels"),
    )


def _marks(run: FinishedRun, name: str) -> list[Mark]:
    """Where pruning starts, on the charts of what a stage that prunes has written."""
    rows = [row for rows in run.curves.values() for row in rows if STARTED in row and name in row]
    return [Mark("pruning starts", rows[0][STARTED])] if rows else []


def _how_often(run: FinishedRun) -> str:
    """The validation part is not read in every epoch: a short run has a single point."""
    every = run.config.train.evaluate_every
    often = "after every epoch" if every == 1 else f"every {every} epochs and after the last"
    return f", judged {often}"


def _lines(run: FinishedRun, name: str) -> list[Series]:
    return [
        Series(stage, style, points)
        for style, (stage, rows) in enumerate(run.curves.items())
        if (points := _points([row for row in rows if name in row and "epoch" in row], name))
    ]


def _points(rows: list[dict[str, float]], name: str) -> list[Point]:
    every = -(-len(rows) // MOST_POINTS) if rows else 1
    # Counted from the end: what a stage ended with is always there.
    kept = rows[::-1][::every][::-1]
    return [
        Point(row["epoch"], row[name], f"{row[name]:.4g} in epoch {row['epoch']:g}") for row in kept
    ]
