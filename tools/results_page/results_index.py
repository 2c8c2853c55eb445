"""What the JSON files of a results folder hold, to be looked up by method, data and budget."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cerp.comparison.statistics import spread
from cerp.paper.published import Row
from cerp.paper.record import NOT_RUN

MISSING, REFUSED = "missing", "not possible"


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

    def scores(self, **wanted: Any) -> list[float]:
        """NDCG@10 of every seed of the rows with these values."""
        return [row["ndcg10"] for row in self.rows if wanted.items() <= row.items()]

    def shown(self, **wanted: Any) -> str:
        """The mean of `scores`, with its deviation."""
        return spread(found) if (found := self.scores(**wanted)) else MISSING

    def is_refused(self, dataset: str, recipe: str, method: str) -> bool:
        """Whether a method was tried, and could not meet the budgets of a recipe."""
        record = self.read(dataset, f"{recipe}-runs.json") or {"missing": []}
        reasons = {cell["why"] for cell in record["missing"] if cell["run"]["method"] == method}
        return bool(reasons) and NOT_RUN not in reasons

    def read(self, *path: str) -> Any:
        """A JSON file of the folder; None where there is none."""
        file = self.folder.joinpath(*path)
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def status(self, dataset: str, recipe: str) -> str:
        """How far a recipe is."""
        record = self.read(dataset, f"{recipe}-runs.json")
        if record is None:
            return MISSING
        found, reasons = len(record["found"]), [cell["why"] for cell in record["missing"]]
        link = f"../results/{dataset}/{recipe}.md"
        if NOT_RUN in reasons:
            state = f"{found} of {found + len(reasons)} cells"
        else:
            state = f"complete; {len(reasons)} {REFUSED}" if reasons else "complete"
        return f"[{state}]({link})"


def _key(row: Row) -> tuple[Any, ...]:
    names: Iterable[str] = ("method", "dataset", "backbone", "sparsity", "preset", "ordering")
    return tuple(row[name] for name in names)
