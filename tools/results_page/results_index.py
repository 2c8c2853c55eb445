"""What the JSON files of a results folder hold, to be looked up by method, data and budget."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from cerp.comparison.statistics import spread
from cerp.evaluation.metrics import JUDGING
from cerp.paper.published import Row
from cerp.paper.record import NOT_RUN, Record

MISSING, REFUSED, NOTHING = "missing", "not possible", "-"
OLDER = "°"
"""After figures that other conventions judged than those of today."""


class ResultsIndex:
    """The rows of method tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rows = {
            (_key(row), row["accounting"], row["seed"]): row
            for name in ("other-data", "table2")
            for path in sorted(folder.glob(f"*/{name}.json"))
            for row in json.loads(path.read_text(encoding="utf-8"))
            if row["refit"] is None  # figures that are compared are of models trained on training
        }
        self.rows = list(rows.values())

    def found(self, **wanted: Any) -> list[Row]:
        """The rows with these values, one for each seed."""
        return [row for row in self.rows if wanted.items() <= row.items()]

    def scores(self, **wanted: Any) -> list[float]:
        """NDCG@10 of every seed of the rows with these values."""
        return [row["ndcg10"] for row in self.found(**wanted)]

    def shown(self, **wanted: Any) -> str:
        """The mean of `scores`, with its deviation; marked where it is older."""
        return shown_spread(self.found(**wanted), "ndcg10") or MISSING

    def is_refused(self, dataset: str, recipe: str, method: str) -> bool:
        """Whether a method was tried, and could not meet the budgets of a recipe."""
        record = self.read(dataset, f"{recipe}-runs.json") or {"missing": []}
        reasons = {cell["why"] for cell in record["missing"] if cell["run"]["method"] == method}
        return bool(reasons) and NOT_RUN not in reasons

    def read(self, *path: str) -> Any:
        """A JSON file of the folder; None where there is none."""
        file = self.folder.joinpath(*path)
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def record(self, dataset: str, recipe: str) -> Record | None:
        """The record of a recipe; None where there is none."""
        path = self.folder / dataset / f"{recipe}-runs.json"
        return Record.read(path) if path.exists() else None

    def status(self, dataset: str, recipe: str) -> str:
        """How far a recipe is."""
        record = self.record(dataset, recipe)
        if record is None:
            return MISSING
        older = sum(entry.result.is_older for entry in record.found)
        found, reasons = len(record.found) - older, [cell.why for cell in record.missing]
        if not found and older:
            state = f"{older} older cells"
        elif NOT_RUN in reasons:
            state = f"{found} of {found + len(reasons)} cells"
        else:
            state = f"complete; {len(reasons)} {REFUSED}" if reasons else "complete"
        return f"[{state}](../results/{dataset}/{recipe}.md)"


def shown_spread(rows: Sequence[Row], name: str) -> str:
    """The mean of a figure over the rows that have it, with its deviation; empty: none has it."""
    values = [row[name] for row in rows if row.get(name) is not None]
    if not values:
        return ""
    return spread(values) + OLDER * any(row.get("judging", JUDGING) != JUDGING for row in rows)


def shown_mean(rows: Sequence[Row], name: str) -> str:
    """The mean of a figure over the rows that have it; a dash where none has."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return f"{mean(values):.4f}" if values else NOTHING


def _key(row: Row) -> tuple[Any, ...]:
    names: Iterable[str] = ("method", "dataset", "backbone", "sparsity", "preset", "ordering")
    return tuple(row[name] for name in names)
