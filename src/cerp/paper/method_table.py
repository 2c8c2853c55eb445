"""Table 2: methods under a budget, CERP's gain over each, and the paper's figures beside."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from cerp.comparison.tables import NOTHING, Section
from cerp.paper.json_rows import percent_of, stored_bytes
from cerp.paper.published import Row, published_rows
from cerp.paper.recipe import Recipe
from cerp.paper.record import Record
from cerp.paper.table_lines import Line, cells, lines, printed_figure

NO_RIVALS = ("cerp", "full", "popularity")
"""What CERP's improvement is not measured against."""
AT_ONE_SPARSITY = ("autoemb", "dhe", "esapn", "optembed")
"""The paper has these once, at about 90%."""
HEADER = (
    "method",
    "NDCG@10",
    "CERP against it",
    "Recall@10",
    "paper's NDCG@10",
    "paper's Recall@10",
    "sparsity",
    "avg dim",
    "values",
    "bytes",
    "seeds",
)
"""What a narrow screen has room for comes first."""
METRICS = {"ndcg10": "NDCG@10", "recall10": "Recall@10"}


def improvement(ours: float, other: float) -> float:
    """``100 (ours / other - 1)`` percent."""
    return 100 * (ours / other - 1)


def method_sections(recipe: Recipe, record: Record) -> list[Section]:
    """One for each backbone and budget. CERP is the first of the recipe's runs of it."""
    sections = []
    for backbone, budget in cells(recipe):
        here = lines(recipe, record, backbone, budget)
        cerp = next((line for line in here if line.run.method == "cerp" and line.found), None)
        marks = {
            entry.against: entry.mark
            for entry in record.intervals
            if (entry.backbone, entry.budget) == (backbone, budget)
        }
        printed = published_rows("table2", dataset=record.dataset, backbone=backbone)
        percent = percent_of(budget)
        rows = [
            _row(line, _printed(line.run.method, percent, printed), _against(line, cerp, marks))
            for line in here
        ]
        notes = _improvements(cerp, here, [row for row in printed if row["sparsity"] == percent])
        sections.append(Section(f"{backbone}, {budget}", rows, notes, HEADER))
    return sections


def _row(line: Line, printed: Row | None, against: str) -> tuple[str, ...]:
    return (
        line.name,
        line.spread("ndcg10"),
        against,
        line.spread("recall10"),
        printed_figure(printed, "ndcg10"),
        printed_figure(printed, "recall10"),
        line.text("sparsity", "{:.2%}"),
        line.text("avg_dim", "{:.2f}"),
        line.text("nnz"),
        _bytes(line),
        line.seeds,
    )


def _bytes(line: Line) -> str:
    found = [size for entry in line.found if (size := stored_bytes(entry.result)) is not None]
    return f"{mean(found):,.0f}" if found else NOTHING


def _against(line: Line, cerp: Line | None, marks: Mapping[str, str]) -> str:
    """CERP's NDCG@10 over a line's, and whether the difference is clear."""
    if cerp is None or line is cerp or not line.found or not line.mean("ndcg10"):
        return NOTHING
    percent = improvement(cerp.mean("ndcg10"), line.mean("ndcg10"))
    return f"{percent:+.1f}% ({marks.get(line.found[0].result.method, 'no interval')})"


def _printed(method: str, percent: float | None, printed: list[Row]) -> Row | None:
    """The paper's row of a method at a sparsity."""
    own = [row for row in printed if row["method"] == method]
    if method in AT_ONE_SPARSITY:
        return own[0] if own and percent == 90 else None
    return next((row for row in own if row["sparsity"] == percent), None)


def _improvements(cerp: Line | None, here: list[Line], printed: list[Row]) -> list[str]:
    """CERP over the best other under the budget, as measured and as printed."""
    said = []
    rivals = {
        line.name: {name: line.mean(name) for name in METRICS}
        for line in here
        if line.run.method not in NO_RIVALS and line.found
    }
    if cerp is not None and rivals:
        mine = {name: cerp.mean(name) for name in METRICS}
        said.append(_over_best("CERP over the best other", mine, rivals))
    by_method = {row["method"]: row for row in printed}
    if paper := by_method.pop("cerp", None):
        said.append(_over_best("In the paper", paper, by_method))
    if paper is not None and cerp is not None:
        score = cerp.mean("ndcg10")
        above = "above" if score > paper["ndcg10"] else "not above"
        said.append(f"CERP's NDCG@10, {score:.4f}, is {above} the paper's, {paper['ndcg10']:.4f}.")
    return said


def _over_best(start: str, cerp: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> str:
    parts = []
    for name, shown in METRICS.items():
        best = max(others, key=lambda other: float(others[other][name]))
        percent = improvement(cerp[name], others[best][name])
        parts.append(f"{shown} {percent:+.1f}% (over {best})")
    return f"{start}: {', '.join(parts)}."
