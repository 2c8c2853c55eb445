"""From results to tables: one for each backbone and budget, values first, then bytes.

In each, methods stand by falling NDCG@10. A method's mark comes from the
paired bootstrap of its per-user NDCG@10, averaged over seeds, against the best
other method that keeps the budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import mean

from cerp.budget import Budget
from cerp.comparison.jobs import is_size
from cerp.comparison.results import Result, Results
from cerp.comparison.statistics import mark, over_seeds, spread
from cerp.evaluation.metrics import CONVENTIONS, Metrics
from cerp.sizing.precision_plan import FULL

HEADER = (
    "method",
    "sparsity",
    "avg dim",
    "values, paper's count",
    "values, all stored",
    "stored as",
    "embedding bytes",
    "file bytes",
    "NDCG@10",
    "Recall@10",
    "seeds",
    "against best other",
)
NOTHING = "-"

HOW_TO_READ = (
    "Figures are means over seeds ± the standard deviation (n - 1). Sparsity is 1 - nnz / (N·d). "
    "The paper's count leaves out what a method's own accounting calls free; all stored counts "
    "every learnable value. 'Against best other' compares NDCG@10 with the best other method that "
    "keeps the budget (popularity keeps every one): paired bootstrap over test users (95%), each "
    "user's mean over seeds. "
    "It speaks of users, not of seeds: that is what the deviation is for."
)


@dataclass(frozen=True)
class Section:
    """One table and what must be said beside it."""

    title: str
    rows: list[tuple[str, ...]]
    notes: list[str] = field(default_factory=list)
    header: tuple[str, ...] = HEADER
    figure: str = ""
    """Inline SVG, for pages."""


@dataclass(frozen=True)
class Report:
    """Everything that a comparison shows."""

    sections: list[Section]
    notes: list[str]
    title: str = "Comparison"


@dataclass(frozen=True)
class _Entry:
    """The seeds of one method in one table."""

    results: list[Result]
    judged: Metrics
    keeps_budget: bool

    @property
    def score(self) -> float:
        return mean(_numbers(self.results, "ndcg10"))


def report(results: Results) -> Report:
    """The tables of all that a folder holds."""
    sections = [
        _section(results, backbone, budget)
        for is_in_bytes in (False, True)
        for backbone in _distinct(result.backbone for result in results.all)
        for budget in _budgets(results, backbone, is_in_bytes=is_in_bytes)
    ]
    return Report(sections, _notes(results.all))


def _section(results: Results, backbone: str, budget: str) -> Section:
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
            # What needs no embedding keeps every budget.
            keeps_budget = found[0].budget in (budget, None)
            entries.append(_Entry(found, judged, keeps_budget))
            if (reason := found[0].why_no_file) is not None:
                refused[f"{method} has no file"] = reason
    entries.sort(key=lambda entry: -entry.score)
    kind = "equal bytes" if is_size(budget) else "equal values"
    return Section(
        f"{backbone}, {budget} ({kind})",
        [_row(entry, entries) for entry in entries],
        [f"{what}: {why}" for what, why in refused.items()],
    )


def _row(entry: _Entry, entries: Sequence[_Entry]) -> tuple[str, ...]:
    own = entry.results
    # Sorted by score: the first that is not this one is the best other.
    rival = next((one for one in entries if one.keeps_budget and one is not entry), None)
    return (
        own[0].method,
        _mean(own, "sparsity", "{:.2%}"),
        _mean(own, "avg_dim", "{:.1f}"),
        _mean(own, "paper_count", "{:,.0f}"),
        _mean(own, "stored_count", "{:,.0f}"),
        ", ".join(_distinct(result.values for result in own)) or NOTHING,
        _mean(own, "embedding_bytes", "{:,.0f}"),
        _mean(own, "file_bytes", "{:,.0f}"),
        spread(_numbers(own, "ndcg10")),
        spread(_numbers(own, "recall10")),
        str(len(own)),
        NOTHING if rival is None else f"{mark(entry.judged, rival.judged)} ({_name(rival)})",
    )


def _name(entry: _Entry) -> str:
    return entry.results[0].method


def _notes(results: Sequence[Result]) -> list[str]:
    tuned = sorted(
        {f"{result.method} ({result.backbone})" for result in results if result.is_tuned}
    )
    return [
        HOW_TO_READ,
        " ".join(CONVENTIONS.split()),
        "Settings: the default preset"
        + (f"; those of a search for {', '.join(tuned)}" if tuned else "")
        + ". results.jsonl has the whole configuration of every cell.",
        f"Data: {', '.join(_distinct(result.fingerprint for result in results))}",
        f"Seeds: {', '.join(map(str, sorted({result.seed for result in results})))}. "
        f"cerp {', '.join(_distinct(result.version for result in results))} on "
        f"{', '.join(_distinct(result.device for result in results))}.",
    ]


def _budgets(results: Results, backbone: str, *, is_in_bytes: bool) -> list[str]:
    """The budgets of a backbone from loose to tight: shares, then counts, or sizes."""
    found = _distinct(result.budget for result in results.all if result.backbone == backbone)
    kept = [one for one in found if one != FULL and is_size(one) == is_in_bytes]
    return sorted(kept, key=_tightness)


def _tightness(budget: str) -> tuple[bool, float]:
    parsed = Budget.parse(budget)
    amount = parsed.size if parsed.kept is None else parsed.kept
    return isinstance(amount, int), -float(amount or 0)


def _distinct(values: Iterable[str | None]) -> list[str]:
    """Each once, in the order of their first appearance."""
    return [value for value in dict.fromkeys(values) if value is not None]


def _numbers(results: Sequence[Result], name: str) -> list[float]:
    values = (getattr(result, name) for result in results)
    return [value for value in values if value is not None]


def _mean(results: Sequence[Result], name: str, form: str) -> str:
    numbers = _numbers(results, name)
    return form.format(mean(numbers)) if numbers else NOTHING
