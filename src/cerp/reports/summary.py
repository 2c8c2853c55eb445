"""The summary: the best compact model in figures and in words, and a table of all models."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from cerp.pages.html import Parts, Place, element, listed, table
from cerp.pages.numbers import UNKNOWN, count, metric, metric_name, percent, signed
from cerp.pages.tables import best_in
from cerp.reports.findings import Findings
from cerp.reports.finished_runs import Model
from cerp.reports.sentences import what_is_not_shown, what_is_shown


def summary(found: Findings) -> Parts:
    """The best compact model in figures and in words, and a table of all models."""
    return [
        *_tiles(found),
        element("p", what_is_shown(found), class_="lead"),
        *listed(what_is_not_shown(found)),
        _model_table(found),
        *([_difference_table(found)] if found.differences else []),
    ]


def _tiles(found: Findings) -> Parts:
    best = found.best
    if best is None or best.test is None:
        return []
    score = best.test[found.metric]
    tiles = [(f"{metric_name(found.metric)} on test", metric(score))]
    if found.full is not None and found.full.test and found.full.test[found.metric] > 0:
        share_of_full = percent(score / found.full.test[found.metric])
        doubt = ", which was still improving" if found.full.is_rising else ""
        tiles.append((f"of the full-size model{doubt}", share_of_full))
    if best.facts.file_bytes is not None:
        tiles.append(("file bytes", count(best.facts.file_bytes)))
    if (share := found.share_of_full_table(best)) is not None:
        tiles.append(("embedding bytes, of the full fp32 table", percent(share)))
    shown = [element("div", element("dt", name), element("dd", value)) for name, value in tiles]
    caption = element("p", "Best compact model by validation: ", element("strong", best.label))
    return [caption, element("dl", *shown, class_="tiles")]


def _model_table(found: Findings) -> Element:
    """All models and popularity, the best on the test part first and in bold."""
    main, second = found.metrics
    header = [
        "model",
        f"test {metric_name(main)}",
        f"test {metric_name(second)}",
        "file bytes",
        "embedding bytes",
        "embedding, of full table",
        "stored values",
        "stored as",
        "average dimension",
        "backbone",
        f"valid {metric_name(main)}",
    ]
    entries = [(model.test or {}, _model_row(found, model)) for model in found.ranked]
    if found.popularity is not None:
        floor = found.popularity.mean
        row = ["popularity", metric(floor[main]), metric(floor[second])]
        entries.append((floor, row + [UNKNOWN] * (len(header) - len(row))))
        entries.sort(key=lambda entry: -entry[0].get(main, float("-inf")))
    best: frozenset[Place] = frozenset()
    for column, name in enumerate((main, second), 1):
        best |= best_in(column, [figures.get(name) for figures, _ in entries])
    return table("All models", header, [row for _, row in entries], best=best)


def _model_row(found: Findings, model: Model) -> list[str]:
    facts, test = model.facts, model.test or {}
    main, second = found.metrics
    return [
        model.label,
        metric(test.get(main)),
        metric(test.get(second)),
        count(facts.file_bytes),
        count(facts.embedding_bytes),
        percent(found.share_of_full_table(model)),
        count(facts.paper_count),
        facts.values or UNKNOWN,
        f"{facts.avg_dim:.1f}",
        model.run.config.backbone if facts.has_vectors else UNKNOWN,
        metric(model.validation),
    ]


def _difference_table(found: Findings) -> Element:
    assert found.best is not None, "differences are those of a best model"
    rows = [
        [
            label,
            signed(one.mean),
            f"{signed(one.low)} to {signed(one.high)}",
            "clear" if one.is_clear else "not clear",
        ]
        for label, one in found.differences.items()
    ]
    header = ["minus", "mean difference", "95% interval", "this is"]
    caption = (
        f"Test {metric_name(found.metric)} of {found.best.label} minus that of the others, by the "
        "paired bootstrap over users, each interval by itself"
    )
    return table(caption, header, rows)
