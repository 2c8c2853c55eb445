"""From results to tables: one for each backbone and budget, values first, then bytes.

In each, methods stand by falling `MAIN_METRIC`. A method's mark says whether it
differs from the best other method that keeps the budget: by a bootstrap over
users and seeds, with Holm's correction over all tables of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from cerp.budget import Budget
from cerp.comparison.jobs import is_size
from cerp.comparison.metrics import FIGURES, MAIN_METRIC, field_of
from cerp.comparison.results import Result, Results, main_scores
from cerp.comparison.statistics import ENOUGH_SEEDS, Judged, Mark, marks, spread, t_test
from cerp.evaluation.metrics import CONVENTIONS
from cerp.pages.html import Place
from cerp.pages.tables import NOTHING, TablePage, TableSection, best_in
from cerp.sizing.precision_plan import FULL

MAIN, *BESIDE = FIGURES.values()
ORDINARY = (
    "method",
    MAIN,
    "against best other",
    "p over seeds",
    *BESIDE,
    "embedding bytes",
    "file bytes",
    "stored as",
    "best epoch",
    "seeds",
)
"""What a reader needs; it comes first."""
LAST = " (last)"
"""Beside the best epoch, where it is that at which training ended."""
COUNTS = ("sparsity", "avg dim", "values, paper's count", "values, all stored")
"""What papers compare methods by."""
HEADER = ORDINARY + COUNTS

HOW_TO_READ = (
    "Figures are means over seeds ± the standard deviation (n - 1); bold: the best that keeps the "
    "budget. Embedding bytes are those of the vectors in the model file, file bytes all of it. "
    f"'Against best other' compares {MAIN} with the best other method that "
    "keeps the budget (popularity and the filter keep every one). Better or worse: the 95% "
    "interval of the difference leaves zero out, from a bootstrap that draws test users and seeds "
    "together, after Holm's correction over all differences of this page. It needs "
    f"{ENOUGH_SEEDS} seeds of what is trained. 'p over seeds' is that of Welch's t-test between "
    "the means of the seeds, by itself. The tail counts truth among items that are not popular "
    "alone; coverage is the share of items in anybody's list. A best epoch that is the last "
    "says that more epochs might be better."
)
HOW_TO_READ_COUNTS = (
    "Sparsity is 1 - nnz / (N·d). The paper's count leaves out what a method's own accounting "
    "calls free; all stored counts every learnable value."
)


@dataclass(frozen=True)
class _Entry:
    """The seeds of one method in one table."""

    results: list[Result]
    judged: Judged
    keeps_budget: bool

    @property
    def name(self) -> str:
        return self.results[0].method

    @property
    def score(self) -> float:
        return self.mean(field_of(MAIN_METRIC)) or 0.0

    def mean(self, name: str) -> float | None:
        numbers = _numbers(self.results, name)
        return mean(numbers) if numbers else None

    def spread(self, name: str) -> str:
        numbers = _numbers(self.results, name)
        return spread(numbers) if numbers else NOTHING


@dataclass(frozen=True)
class _Compared:
    """What one table compares."""

    title: str
    entries: list[_Entry]
    """By falling score."""
    refused: dict[str, str]

    def rival(self, entry: _Entry) -> _Entry | None:
        """The best other that keeps the budget."""
        return next((one for one in self.entries if one.keeps_budget and one is not entry), None)

    def pairs(self) -> dict[tuple[str, str, str], tuple[Judged, Judged]]:
        """Each method and its rival, the higher score first: so no pair is there twice."""
        found = {}
        for entry in self.entries:
            if (rival := self.rival(entry)) is not None:
                first, second = sorted((entry, rival), key=self.entries.index)
                found[self.title, first.name, second.name] = first.judged, second.judged
        return found


def comparison_page(results: Results, *, verbose: bool = True) -> TablePage:
    """The tables of all that a folder holds; ``verbose``: also what papers compare by."""
    backbones: Sequence[str | None] = _distinct(result.backbone for result in results.all)
    compared = [
        _compared(results, backbone, budget)
        for is_in_bytes in (False, True)
        for backbone in backbones or [None]
        for budget in _budgets(results, backbone, is_in_bytes=is_in_bytes)
    ]
    if not compared and results.all:
        compared = [_compared(results, None, None)]
    found = marks({key: pair for table in compared for key, pair in table.pairs().items()})
    sections = [_section(table, found) for table in compared]
    if not verbose:
        sections = [_ordinary(section) for section in sections]
    notes = _notes(results.all, verbose=verbose)
    return TablePage("Comparison", sections, notes, CONVENTIONS)


def _ordinary(section: TableSection) -> TableSection:
    """Without the columns of `COUNTS`, which are the last."""
    kept = len(ORDINARY)
    return replace(section, header=ORDINARY, rows=[row[:kept] for row in section.rows])


def _compared(results: Results, backbone: str | None, budget: str | None) -> _Compared:
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
            values = tuple(results.user_values(result.cell) for result in found)
            judged = Judged(values, is_random=found[0].is_random)
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
    return _Compared(title, entries, refused)


def _section(compared: _Compared, found: Mapping[tuple[str, str, str], Mark]) -> TableSection:
    entries = compared.entries
    best: frozenset[Place] = frozenset()
    for name, shown in FIGURES.items():
        scores = [entry.mean(name) if entry.keeps_budget else None for entry in entries]
        best |= best_in(HEADER.index(shown), scores)
    return TableSection(
        compared.title,
        HEADER,
        [_row(entry, *_against(entry, compared, found)) for entry in entries],
        [f"{what}: {why}" for what, why in compared.refused.items()],
        best,
    )


OPPOSITE: dict[Mark, Mark] = {"better": "worse", "worse": "better"}


def _against(
    entry: _Entry, compared: _Compared, found: Mapping[tuple[str, str, str], Mark]
) -> tuple[str, str]:
    """The mark against the best other, and the p of the t-test."""
    rival = compared.rival(entry)
    if rival is None:
        return NOTHING, NOTHING
    mark = found.get((compared.title, entry.name, rival.name))
    if mark is None:
        mirrored = found[compared.title, rival.name, entry.name]
        mark = OPPOSITE.get(mirrored, mirrored)
    p = t_test(main_scores(entry.results), main_scores(rival.results))
    return f"{mark} ({rival.name})", NOTHING if p is None else f"{p:.2g}"


def _row(entry: _Entry, against: str, p_over_seeds: str) -> tuple[str, ...]:
    own, (main, *beside) = entry.results, FIGURES
    return (
        entry.name,
        entry.spread(main),
        against,
        p_over_seeds,
        *map(entry.spread, beside),
        _mean(own, "embedding_bytes", "{:,.0f}"),
        _mean(own, "file_bytes", "{:,.0f}"),
        ", ".join(_distinct(result.values for result in own)) or NOTHING,
        _mean(own, "best_epoch", "{:.0f}") + LAST * any(one.ends_at_its_last_epoch for one in own),
        str(len(own)),
        _mean(own, "sparsity", "{:.2%}"),
        _mean(own, "avg_dim", "{:.1f}"),
        _mean(own, "paper_count", "{:,.0f}"),
        _mean(own, "stored_count", "{:,.0f}"),
    )


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
