"""How CERP stands against each rival, and what of it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from cerp.comparison.results import Result, main_scores
from cerp.comparison.statistics import ENOUGH_SEEDS, Mark, t_test
from cerp.evaluation.significance import LEVEL
from cerp.pages.tables import markdown_table
from cerp.paper.method_table import NO_RIVALS
from cerp.paper.record import Record, is_in_cell
from results_page.names import BACKBONES
from results_page.results_index import NOTHING, ResultsIndex

CELLS = {"table2": ("99%", "95%", "90%"), "table2-bytes": ("400KB",)}
"""Budgets by recipe."""
MARKS: tuple[Mark, ...] = get_args(Mark)
Standing = tuple[str, Mark, float | None]
"""A rival, what is said of CERP against it, and the p of the t-test over seeds."""


def standing_parts(results: ResultsIndex) -> list[str]:
    """A line for each backbone and budget: against how many rivals what holds."""
    lines, worse = [], []
    for recipe, budgets in CELLS.items():
        record = results.record("gowalla", recipe)
        for backbone in BACKBONES:
            for budget in budgets:
                found = [] if record is None else rivals(record, backbone, budget)
                lines.append((f"{backbone}, {budget}", *_counts(found)))
                worse += [
                    f"{name} ({backbone}, {budget})" for name, mark, _ in found if mark == "worse"
                ]
    told = f"CERP is worse than {', '.join(worse)}." if worse else ""
    return [
        "## CERP against each rival, Gowalla",
        "In how many comparisons of NDCG@10 CERP, default preset and hashed rows, is better or "
        "worse. "
        "*Better* and *worse*: the 95% interval of the difference, from a bootstrap over users and "
        "seeds together, leaves zero out after Holm's correction over the table. *Too few seeds*: "
        f"one of the two has fewer than {ENOUGH_SEEDS}. *Users only*: the interval is older than "
        "this rule and knows nothing of seeds. The last column: in how many of those with seeds "
        "enough a t-test over seeds alone finds a difference.",
        markdown_table(("Gowalla", "rivals", *MARKS, "t-test"), lines),
        *([told] if told else []),
    ]


def _counts(found: Sequence[Standing]) -> tuple[str, ...]:
    if not found:
        return (NOTHING,) * (len(MARKS) + 2)
    marks = [mark for _, mark, _ in found]
    tested = [p for _, _, p in found if p is not None]
    differ = f"{sum(p <= LEVEL for p in tested)} of {len(tested)}" if tested else NOTHING
    return str(len(found)), *(str(marks.count(mark)) for mark in MARKS), differ


def rivals(record: Record, backbone: str, budget: str) -> list[Standing]:
    """All that CERP is compared with in a cell."""
    results: dict[str, list[Result]] = {}
    mine: list[Result] = []
    cerp = next((entry.run.row for entry in record.found if entry.run.method == "cerp"), None)
    for entry in record.found:
        if is_in_cell(entry, backbone, budget):
            results.setdefault(entry.result.method, []).append(entry.result)
            mine += [entry.result] if entry.run.row == cerp else []
    return [
        (_method(name), mark, _p_over_seeds(mine, results.get(name, [])))
        for name, mark in record.marks(backbone, budget).items()
        if _method(name) not in NO_RIVALS
    ]


def _p_over_seeds(mine: Sequence[Result], other: Sequence[Result]) -> float | None:
    return t_test(main_scores(mine), main_scores(other)) if mine and other else None


def _method(name: str) -> str:
    return name.split("-")[0]
