"""The summary: the best compact model in figures and in words, and a table of all models."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from cerp.report.findings import Findings
from cerp.report.html import UNKNOWN, Section, count, element, metric, percent, signed, table
from cerp.report.sentences import what_is_not_shown, what_is_shown


def summary(found: Findings) -> Section:
    """The best compact model in figures and in words, and a table of all models."""
    notes = [element("li", note) for note in what_is_not_shown(found)]
    return [
        *_tiles(found),
        element("p", what_is_shown(found), class_="lead"),
        *([element("ul", *notes, class_="notes")] if notes else []),
        _model_table(found),
        *([_difference_table(found)] if found.differences else []),
    ]


def _tiles(found: Findings) -> Section:
    best = found.best
    if best is None or best.test is None:
        return []
    ndcg = best.test["ndcg@10"]
    tiles = [("NDCG@10 on test", metric(ndcg))]
    if found.full is not None and found.full.test and found.full.test["ndcg@10"] > 0:
        share_of_full = percent(ndcg / found.full.test["ndcg@10"])
        doubt = ", which was still improving" if found.full.is_rising else ""
        tiles.append((f"of the full-size model{doubt}", share_of_full))
    if best.file_bytes is not None:
        tiles.append(("bytes in the whole file", count(best.file_bytes)))
    if (share := found.share_of_full_table(best)) is not None:
        tiles.append(("embedding, of the full fp32 table", percent(share)))
    shown = [element("div", element("dt", name), element("dd", value)) for name, value in tiles]
    caption = element("p", "Best compact model by validation: ", element("strong", best.label))
    return [caption, element("dl", *shown, class_="tiles")]


def _model_table(found: Findings) -> Element:
    header = [
        "model",
        "test NDCG@10",
        "test Recall@10",
        "file bytes",
        "embedding bytes",
        "of full table",
        "stored values",
        "stored as",
        "average dimension",
        "backbone",
        "valid NDCG@10",
    ]
    rows = []
    for model in found.models:
        test, average = model.test or {}, model.summary.get("avg_dim")
        rows.append(
            [
                model.label,
                metric(test.get("ndcg@10")),
                metric(test.get("recall@10")),
                count(model.file_bytes),
                count(model.embedding_bytes),
                percent(found.share_of_full_table(model)),
                count(model.values),
                model.summary.get("values", UNKNOWN),
                UNKNOWN if average is None else f"{average:.1f}",
                model.run.config.backbone,
                metric(model.validation),
            ]
        )
    if found.popularity is not None:
        floor = found.popularity.metrics.mean
        known = ["popularity", metric(floor["ndcg@10"]), metric(floor["recall@10"])]
        rows.append(known + [UNKNOWN] * (len(header) - len(known)))
    return table("All models", header, rows)


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
        f"Test NDCG@10 of {found.best.label} minus that of the others, by the paired bootstrap "
        "over users, each interval by itself"
    )
    return table(caption, header, rows)
