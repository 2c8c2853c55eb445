"""From results to tables: one for each backbone and budget, values first, then bytes.

In each, methods stand by falling `MAIN_METRIC`. A method's mark comes from the
paired bootstrap of its per-user values, averaged over seeds, against the best
other method that keeps the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from cerp.budget import Budget
from cerp.comparison.jobs import is_size
from cerp.comparison.metrics import MAIN_METRIC, METRICS, field_of
from cerp.comparison.results import Result, Results
from cerp.comparison.statistics import mark, over_seeds, spread
from cerp.evaluation.metrics import CONVENTIONS, Metrics
from cerp.pages.html import Place
from cerp.pages.numbers import metric_name
from cerp.pages.tables import NOTHING, TablePage, TableSection, best_in
from cerp.sizing.precision_plan import FULL

NAMES = tuple(map(metric_name, METRICS))
ORDINARY = (
    "method",
    *NAMES,
    "against best other",
    "embedding bytes",
    "file bytes",
    "stored as",
    "seeds",
)
"""What a reader needs; it comes first."""
COUNTS = ("sparsity", "avg dim", "values, paper's count", "values, all stored")
"""What papers compare methods by."""
HEADER = ORDINARY + COUNTS

HOW_TO_READ = (
    "Figures are means over seeds ± the standard deviation (n - 1); bold: the best that keeps the "
    "budget. Embedding bytes are those of the vectors in the model file, file bytes all of it. "
    f"'Against best other' compares {NAMES[0]} with the best other method that "
    "keeps the budget (popularity and the filter keep every one): paired bootstrap over test users "
    "(95%), each user's mean over seeds. "
    "It speaks of users, not of seeds: that is what the deviation is for."
)
HOW_TO_READ_COUNTS = (
    "Sparsity is 1 - nnz / (N·d). The paper's count leaves out what a method's own accounting "
    "calls free; all stored counts every learnable value."
)


@dataclass(frozen=True)
class _Entry:
    """The seeds of one method in one table."""

    results: list[Result]
    judged: Metrics
    keeps_budget: bool

    @property
    def score(self) -> float:
        return self.mean(MAIN_METRIC)

    def mean(self, metric: str) -> float:
        return mean(_numbers(self.results, field_of(metric)))


def comparison_page(results: Results, *, verbose: bool = True) -> TablePage:
    """The tables of all that a folder holds; ``verbose``: also what papers compare by."""
    backbones: Sequence[str | None] = _distinct(result.backbone for result in results.all)
    sections = [
        _section(results, backbone, budget)
        for is_in_bytes in (False, True)
        for backbone in backbones or [None]
        for budget in _budgets(results, backbone, is_in_bytes=is_in_bytes)
    ]
    if not sections and results.all:
        sections = [_section(results, None, None)]
    if not verbose:
        sections = [_ordinary(section) for section in sections]
    notes = _notes(results.all, verbose=verbose)
    return TablePage("Comparison", sections, notes, CONVENTIONS)


def _ordinary(section: TableSection) -> TableSection:
    """Without the columns of `COUNTS`, which are the last."""
    kept = len(ORDINARY)
    return replace(section, header=ORDINARY, rows=[row[:kept] for row in section.rows])


def _section(results: Results, backbone: str | None, budget: str | None) -> TableSection:
    entries: list[_Entry] = []
    refused: dict[str, str] = {}
    for method in _distinct(result.method for result in results.all):
        own = [
            result
            for result in results.all
            if result.method == method
            and result.backbone in (backbone, None)
            and result.budget in (budget, FULL, None)
        ]
        refused |= {
            f"{method} is not here": result.error for result in own if result.error is not None
        }
        if found := [result for result in own if result.error is None]:
            judged = over_seeds([results.user_values(result.cell) for result in found])
            # What has no vectors keeps every budget.
            keeps_budget = found[0].budget in (budget, None)
            entries.append(_Entry(found, judged, keeps_budget))
            if (reason := found[0].why_no_file) is not None:
                refused[f"{method} has no file"] = reason
    entries.sort(key=lambda entry: -entry.score)
    title = "without vectors"
    if budget is not None:
        kind = "equal bytes" if is_size(budget) else "equal values"
        title = f"{backbone or 'without vectors'}, {budget} ({kind})"
    best: frozenset[Place] = frozenset()
    for metric in METRICS:
        scores = [entry.mean(metric) if entry.keeps_budget else None for entry in entries]
        best |= best_in(HEADER.index(metric_name(metric)), scores)
    return TableSection(
        title,
        HEADER,
        [_row(entry, entries) for entry in entries],
        [f"{what}: {why}" for what, why in refused.items()],
        best,
    )


def _row(entry: _Entry, entries: Sequence[_Entry]) -> tuple[str, ...]:
    own = entry.results
    # Sorted by score: the first that is not this one is the best other.
    rival = next((one for one in entries if one.keeps_budget and one is not entry), None)
    return (
        own[0].method,
        *(spread(_numbers(own, field_of(metric))) for metric in METRICS),
        NOTHING if rival is None else f"{mark(entry.judged, rival.judged)} ({_name(rival)})",
        _mean(own, "embedding_bytes", "{:,.0f}"),
        _mean(own, "file_bytes", "{:,.0f}"),
        ", ".join(_distinct(result.values for result in own)) or NOTHING,
        str(len(own)),
        _mean(own, "sparsity", "{:.2%}"),
        _mean(own, "avg_dim", "{:.1f}"),
        _mean(own, "paper_count", "{:,.0f}"),
        _mean(own, "stored_count", "{:,.0f}"),
    )


def _name(entry: _Entry) -> str:
    return entry.results[0].method


def _notes(results: Sequence[Result], *, verbose: bool) -> list[str]:
    tuned = sorted(
        {f"{result.method} ({result.backbone})" for result in results if result.is_tuned}
    )
    return [
        HOW_TO_READ,
        *([HOW_TO_READ_COUNTS] if verbose else []),
        "Settings: the default preset"
        + (f"; those of a search for {', '.join(tuned)}" if tuned else "")
        + ". results.jsonl has the whole configuration of every cell.",
        f"Data: {', '.join(_distinct(result.fingerprint for result in results))}",
        f"Seeds: {', '.join(map(str, sorted({result.seed for result in results})))}. "
        f"cerp {', '.join(_distinct(result.version for result in results))} on "
        f"{', '.join(_distinct(result.device for result in results))}.",
    ]


def _budgets(results: Results, backbone: str | None, *, is_in_bytes: bool) -> list[str]:
    """The budgets of a backbone, or of what has none, loose to tight: shares, counts, or sizes."""
    found = _distinct(result.budget for result in results.all if result.backbone == backbone)
    kept = [one for one in found if one != FULL and is_size(one) == is_in_bytes]
    return sorted(kept, key=_tightness)


LARGE_TABLE = (10**9, 10**3)
"""Entities and dimensions: budgets are ordered by what they allow of this table."""


def _tightness(budget: str) -> tuple[bool, float]:
    parsed = Budget.parse(budget)
    amount = parsed.size or parsed.limit(*LARGE_TABLE)
    return parsed.unit != "%", -float(amount)


def _distinct(values: Iterable[str | None]) -> list[str]:
    """Each once, in the order of their first appearance."""
    return [value for value in dict.fromkeys(values) if value is not None]


def _numbers(results: Sequence[Result], name: str) -> list[float]:
    values = (getattr(result, name) for result in results)
    return [value for value in values if value is not None]


def _mean(results: Sequence[Result], name: str, form: str) -> str:
    numbers = _numbers(results, name)
    return form.format(mean(numbers)) if numbers else NOTHING
