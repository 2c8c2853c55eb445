"""What pruning has left of codebooks: what the penalty of the paper is to change."""

from __future__ import annotations

from cerp.pages.html import Parts, remark, table
from cerp.pages.numbers import UNKNOWN, count, percent
from cerp.reports.findings import Findings
from cerp.reports.finished_runs import Model

HEADER = [
    "model",
    "average dimension",
    "its standard deviation",
    "overlap of the books",
    "users and items without values",
    "with three or fewer",
]


def patterns(found: Findings) -> Parts:
    """A row for each model with codebooks; nothing where there is none."""
    rows = [_row(model) for model in found.ranked if model.facts.overlap is not None]
    if not rows:
        return []
    note = (
        "Of the places of a user's or an item's vector: at how many there is a stored value, and "
        "at which share two of its codebook rows both have one. The penalty is to raise the first "
        "and to lower the second."
    )
    return [table("What pruning has left", HEADER, rows), remark(note)]


def _row(model: Model) -> list[str]:
    facts = model.facts
    deviation = facts.dim_deviation
    return [
        model.label,
        f"{facts.avg_dim:.2f}",
        UNKNOWN if deviation is None else f"{deviation:.2f}",
        percent(facts.overlap),
        count(facts.empty_entities),
        count(facts.few_values),
    ]
