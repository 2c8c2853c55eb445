"""Table 2: methods under a budget, CERP's gain over each, and the paper's figures beside."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean
from typing import Any

from cerp.budget import percent_of
from cerp.comparison.metrics import FIGURES, MAIN_METRIC, METRICS, field_of
from cerp.comparison.results import main_scores
from cerp.comparison.statistics import t_test
from cerp.pages.html import Place
from cerp.pages.numbers import metric_name
from cerp.pages.tables import NOTHING, TableSection, best_in
from cerp.paper.json_rows import stored_bytes
from cerp.paper.published import Row, published_rows
from cerp.paper.recipe import Recipe
from cerp.paper.record import Record
from cerp.paper.table_lines import Line, cells, lines, printed_figure

WITHOUT_BUDGET = ("full", "ease")
"""What is stored whole: not what the others are to be measured by."""
NO_RIVALS = ("cerp", "cerp-learned", "popularity", *WITHOUT_BUDGET)
"""What CERP's improvement is not measured against."""
AT_ONE_SPARSITY = ("autoemb", "dhe", "esapn", "optembed")
"""The paper has these once, at about 90%."""
SHOWN = {field_of(metric): metric_name(metric) for metric in METRICS}
"""The figures of a row, and how the table calls them."""
SCORE = field_of(MAIN_METRIC)
MAIN = SHOWN[SCORE]
BESIDE = {name: shown for name, shown in FIGURES.items() if name != SCORE}
HEADER = (
    "method",
    MAIN,
    "CERP against it",
    "p over seeds",
    *BESIDE.values(),
    *(f"paper's {name}" for name in SHOWN.values()),
    "embedding bytes",
    "sparsity",
    "avg dim",
    "values",
    "best epoch",
    "test read",
    "seeds",
)
"""What a narrow screen has room for comes first."""


def improvement(ours: float, other: float) -> float:
    """``100 (ours / other - 1)`` percent."""
    return 100 * (ours / other - 1)


def method_sections(recipe: Recipe, record: Record) -> list[TableSection]:
    """One for each backbone and budget, the best first. CERP is the recipe's first run of it."""
    sections = []
    for backbone, budget in cells(recipe):
        here = lines(recipe, record, backbone, budget)
        cerp = next((line for line in here if line.run.method == "cerp" and line.found), None)
        ranked = sorted(here, key=lambda line: -(line.score or 0.0))
        marks = record.marks(backbone, budget)
        printed = published_rows("table2", dataset=record.dataset, backbone=backbone)
        percent = percent_of(budget)
        rows = [
            _row(line, _printed(line.run.method, percent, printed), *_against(line, cerp, marks))
            for line in ranked
        ]
        notes = _improvements(cerp, here, [row for row in printed if row["sparsity"] == percent])
        best: frozenset[Place] = frozenset()
        for name, shown in FIGURES.items():
            figures = [_mean(line, name) if _is_ranked(line) else None for line in ranked]
            best |= best_in(HEADER.index(shown), figures)
        sections.append(TableSection(f"{backbone}, {budget}", HEADER, rows, notes, best))
    return sections


def _row(line: Line, printed: Row | None, against: str, p_over_seeds: str) -> tuple[str, ...]:
    return (
        line.name,
        line.spread(SCORE),
        against,
        p_over_seeds,
        *map(line.spread, BESIDE),
        *(printed_figure(printed, name) for name in SHOWN),
        _bytes(line),
        line.text("sparsity", "{:.2%}"),
        line.text("avg_dim", "{:.2f}"),
        line.text("nnz"),
        line.best_epoch(),
        line.test_readings(),
        line.seeds,
    )


def _is_ranked(line: Line) -> bool:
    return bool(line.found) and line.run.method not in WITHOUT_BUDGET


def _mean(line: Line, name: str) -> float | None:
    return line.mean(name) if line.values(name) else None


def _bytes(line: Line) -> str:
    found = [size for entry in line.found if (size := stored_bytes(entry.result)) is not None]
    return f"{mean(found):,.0f}" if found else NOTHING


def _against(line: Line, cerp: Line | None, marks: Mapping[str, str]) -> tuple[str, str]:
    """CERP's score over a line's, whether the difference holds, and the p of the t-test.

    Nothing where other conventions judged one of the two.
    """
    if cerp is None or line is cerp or not line.score or line.is_older != cerp.is_older:
        return NOTHING, NOTHING
    percent = improvement(cerp.mean(SCORE), line.score)
    mark = marks.get(line.found[0].result.method, "no interval")
    p = t_test(*(main_scores([entry.result for entry in one.found]) for one in (cerp, line)))
    return f"{percent:+.1f}% ({mark})", NOTHING if p is None else f"{p:.2g}"


def _printed(method: str, percent: float | None, printed: list[Row]) -> Row | None:
    """The paper's row of a method at a sparsity."""
    own = [row for row in printed if row["method"] == method]
    if method in AT_ONE_SPARSITY:
        return own[0] if own and percent == 90 else None
    return next((row for row in own if row["sparsity"] == percent), None)


def _improvements(cerp: Line | None, here: list[Line], printed: list[Row]) -> list[str]:
    """CERP over the best other under the budget, as measured and as printed."""
    said = []
    others = [line for line in here if line.run.method not in NO_RIVALS and line.found]
    alike = [line for line in others if cerp is not None and line.is_older == cerp.is_older]
    if cerp is not None and alike:
        mine = {name: cerp.mean(name) for name in SHOWN}
        rivals = {line.name: {name: line.mean(name) for name in SHOWN} for line in alike}
        best = "the best other" if alike == others else "the best other that was judged alike"
        said.append(_over_best(f"CERP over {best}", mine, rivals))
    by_method = {row["method"]: row for row in printed}
    if paper := by_method.pop("cerp", None):
        said.append(_over_best("In the paper", paper, by_method))
    if paper is not None and cerp is not None:
        score, printed_score = cerp.mean(SCORE), paper[SCORE]
        above = "above" if score > printed_score else "not above"
        said.append(f"CERP's {MAIN}, {score:.4f}, is {above} the paper's, {printed_score:.4f}.")
    return said


def _over_best(start: str, cerp: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> str:
    parts = []
    for name, shown in SHOWN.items():
        best = max(others, key=lambda other: float(others[other][name]))
        percent = improvement(cerp[name], others[best][name])
        parts.append(f"{shown} {percent:+.1f}% (over {best})")
    return f"{start}: {', '.join(parts)}."
