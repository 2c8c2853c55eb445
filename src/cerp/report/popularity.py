"""Recall@10 by how popular items were in training: by tenths, or by head and tail."""

from __future__ import annotations

from cerp.report.axes import rank_axis, zero_axis
from cerp.report.charts import Point, Series, legend, line_chart
from cerp.report.findings import Findings
from cerp.report.html import Section, element, metric, remark, table
from cerp.report.judging import GROUPS, Judgements


def popularity(found: Findings) -> Section:
    """By tenths of the catalogue with the data, by head and tail without."""
    if found.judgements is None:
        return _head_and_tail(found)
    judged = {model.label: one for model, one in found.judgements.models.items()}
    judged["popularity"] = found.judgements.popularity
    header = ["model", "NDCG@10", *(f"tenth {number}" for number in range(1, GROUPS + 1))]
    rows = [
        [label, metric(one.ndcg), *map(metric, one.recall_by_popularity)]
        for label, one in judged.items()
    ]
    series = _series(found, found.judgements)
    chart = line_chart(
        "Recall@10 by item popularity",
        "tenth of the items, most popular first",
        "Recall@10",
        series,
        x_axis=rank_axis,
        y_axis=zero_axis,
    )
    return [
        element(
            "p",
            "Items in ten groups of equal size by their training interactions; in each, only truth "
            "of the group counts. Ranked again by the model files; every run is drawn at its "
            "tightest budget.",
        ),
        element("figure", chart, class_="wide"),
        legend(series),
        table("Recall@10 by tenth of the catalogue", header, rows),
    ]


def _series(found: Findings, judgements: Judgements) -> list[Series]:
    """Every run at its tightest budget, and popularity."""
    drawn = [
        (run.tightest.label, found.style(run), judgements.models[run.tightest])
        for run in sorted(found.runs, key=found.style)
        if run.tightest in judgements.models
    ]
    drawn.append(("popularity", len(found.runs), judgements.popularity))
    return [
        Series(
            label,
            style,
            [
                Point(place, value, f"{metric(value)} in tenth {place}")
                for place, value in enumerate(one.recall_by_popularity, 1)
                if value is not None
            ],
        )
        for label, style, one in drawn
    ]


def _head_and_tail(found: Findings) -> Section:
    rows = [
        [
            model.label,
            metric(model.test["recall@10"]),
            metric(model.test["head"].get("recall@10")),
            metric(model.test["tail"].get("recall@10")),
        ]
        for model in found.models
        if model.test is not None
    ]
    if not rows:
        return [remark("No model has test figures.")]
    return [
        element(
            "p",
            "Head: the fifth of the items with the most training interactions; tail: the rest. "
            "With --data the report shows ten groups, from the model files.",
        ),
        table("Recall@10", ["model", "all items", "head", "tail"], rows),
    ]
