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
from results_page.names import BACKBONES, shown_name
from results_page.results_index import NOTHING, ResultsIndex

PLACES = (
    *(("gowalla", "table2", one, budget) for one in BACKBONES for budget in ("99%", "95%", "90%")),
    *(("gowalla", "table2-bytes", one, "400KB") for one in BACKBONES),
    *((name, "other-data", "lightgcn", "99%") for name in ("ml-1m", "lastfm", "amazon-beauty")),
)
"""Data set, recipe, backbone and budget of each line."""
MARKS: tuple[Mark, ...] = get_args(Mark)
Standing = tuple[str, Mark, float | None]
"""A rival, what is said of CERP against it, and the p of the t-test over seeds."""


def standing_parts(results: ResultsIndex) -> list[str]:
    """A line for each backbone and budget: against how many rivals what holds."""
    lines, worse = [], []
    for dataset, recipe, backbone, budget in PLACES:
        record = results.record(dataset, recipe)
        found = [] if record is None else rivals(record, backbone, budget)
        place = f"{dataset}, {backbone}, {budget}"
        lines.append((place, *_counts(found)))
        names = [shown_name(method) for method, mark, _ in found if mark == "worse"]
        worse += [f"- {place}: {'; '.join(names)}"] if names else []
    told = ["These are better than CERP:", "\n".join(worse)] if worse else []
    return [
        "## CERP against each rival",
        "In how many comparisons of NDCG@10 CERP, rows hashed in spectral order, is better or "
        "worse. "
        "*Better* and *worse*: the 95% interval of the difference, from a bootstrap over users and "
        "seeds together, leaves zero out after Holm's correction over the table. *Too few seeds*: "
        f"one of the two has fewer than {ENOUGH_SEEDS}. *Users only*: the interval is older than "
        "this rule and knows nothing of seeds. The last column: in how many of those with seeds "
        "enough a t-test over seeds alone finds a difference.",
        markdown_table(("", "rivals", *MARKS, "t-test"), lines),
        *told,
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
    """From the name of a job: its method, preset and digest."""
    return name.rsplit("-", 2)[0]
