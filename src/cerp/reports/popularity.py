"""Recall by how popular items were in training: by tenths, or by head and tail."""

from __future__ import annotations

from cerp.evaluation.metrics import cutoff_of
from cerp.pages.axes import rank_axis, zero_axis
from cerp.pages.charts import Point, Series, legend, line_chart
from cerp.pages.html import Parts, element, remark, table
from cerp.pages.numbers import metric, metric_name
from cerp.pages.tables import best_in
from cerp.reports.findings import Findings
from cerp.reports.judging import GROUPS, Judgements


def popularity(found: Findings) -> Parts:
    """By tenths of the catalogue with the data, by head and tail without."""
    if found.judgements is None:
        return _head_and_tail(found)
    judged = {model.label: one for model, one in found.judgements.models.items()}
    judged["popularity"] = found.judgements.popularity
    by_group = f"recall@{found.judgements.k}"
    recall, shown = metric_name(by_group), metric_name(found.metric)
    header = ["model", shown, *(f"tenth {number}" for number in range(1, GROUPS + 1))]
    ranked = sorted(judged.items(), key=lambda entry: -entry[1].mean[found.metric])
    scores = [one.mean[found.metric] for _, one in ranked]
    rows = [
        [label, metric(score), *map(metric, one.recall_by_group[by_group])]
        for (label, one), score in zip(ranked, scores, strict=True)
    ]
    best = best_in(1, scores)
    for tenth in range(GROUPS):
        best |= best_in(2 + tenth, [one.recall_by_group[by_group][tenth] for _, one in ranked])
    series = _series(found, found.judgements)
    chart = line_chart(
        f"{recall} by item popularity",
        "tenth of the items, most popular first",
        recall,
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
        table(f"{recall} by tenth of the catalogue", header, rows, best=best),
    ]


def _series(found: Findings, judgements: Judgements) -> list[Series]:
    """Every run at its tightest budget, and popularity."""
    by_group = f"recall@{judgements.k}"
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
                for place, value in enumerate(one.recall_by_group[by_group], 1)
                if value is not None
            ],
        )
        for label, style, one in drawn
    ]


def _head_and_tail(found: Findings) -> Parts:
    recall = f"recall@{cutoff_of(found.metric)}"
    rows = [
        [
            model.label,
            metric(model.test[recall]),
            metric(model.test["head"].get(recall)),
            metric(model.test["tail"].get(recall)),
        ]
        for model in found.ranked
        if model.test is not None
    ]
    if not rows:
        return [remark("No model has test figures.")]
    return [
        element(
            "p",
            "Head: the fifth of the items with the most training interactions; tail: the rest. "
            "A report that is made with the data shows ten groups, from the model files.",
        ),
        table(metric_name(recall), ["model", "all items", "head", "tail"], rows),
    ]
