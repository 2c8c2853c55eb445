"""Lines of a table: one run of a recipe in one cell, with its seeds, found or missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Any

from cerp.comparison.metrics import MAIN_METRIC, field_of
from cerp.comparison.statistics import spread
from cerp.comparison.tables import LAST
from cerp.pages.tables import NOTHING
from cerp.paper.recipe import Recipe, RecipeRun
from cerp.paper.record import MeasuredCell, MissingCell, Record, is_in_cell


@dataclass(frozen=True)
class Line:
    """The seeds of one run under one backbone and budget."""

    run: RecipeRun
    found: list[MeasuredCell]
    missing: list[MissingCell]

    @property
    def name(self) -> str:
        """The method, and what tells it from others of the same one."""
        entries: list[MeasuredCell | MissingCell] = [*self.found, *self.missing]
        ordering = entries[0].ordering
        words: list[str] = [self.run.preset] if self.run.preset != "default" else []
        words += [f"{ordering} ids"] if ordering else []
        words += _rows_in_words(self.run.settings)
        accounting = self.run.settings.get("method_options", {}).get("accounting")
        words += [f"{accounting} count"] if accounting else []
        words += ["refit"] if self.run.settings.get("refit") else []
        return f"{self.run.method} ({', '.join(words)})" if words else self.run.method

    @property
    def seeds(self) -> str:
        """How many were run; of how many, if some are missing, or that they are older."""
        if self.is_older:
            return f"{len(self.found)} older"
        total = len(self.found) + len(self.missing)
        return f"{len(self.found)} of {total}" if self.missing else str(total)

    @property
    def is_older(self) -> bool:
        """Whether other conventions judged than those of today."""
        return any(entry.result.is_older for entry in self.found)

    def values(self, name: str) -> list[float]:
        """A figure of every seed that has it."""
        values = (getattr(entry.result, name) for entry in self.found)
        return [value for value in values if value is not None]

    def mean(self, name: str) -> float:
        """Of a figure, over seeds."""
        return mean(self.values(name))

    @property
    def score(self) -> float | None:
        """The mean of `MAIN_METRIC`; None where nothing was run."""
        name = field_of(MAIN_METRIC)
        return self.mean(name) if self.values(name) else None

    def text(self, name: str, form: str = "{:,.0f}") -> str:
        """The mean of a figure; a dash where there is none."""
        return form.format(self.mean(name)) if self.values(name) else NOTHING

    def spread(self, name: str) -> str:
        """Mean and deviation of a metric; a dash where there is none."""
        return spread(values) if (values := self.values(name)) else NOTHING

    def best_epoch(self) -> str:
        """The mean over seeds; with a word where training ended there."""
        told = self.text("best_epoch")
        return told + LAST * any(entry.result.ends_at_its_last_epoch for entry in self.found)

    def test_readings(self) -> str:
        """How often the test part was seen, at most over seeds; a dash where nobody counted."""
        counts = [entry.test_readings for entry in self.found if entry.test_readings is not None]
        return str(max(counts)) if counts else NOTHING

    def pruning(self) -> tuple[str, str]:
        """Epochs of pruning, and the sparsity at which it stalled, if it did."""
        found = [entry.result.search or {} for entry in self.found]
        if not found:
            return NOTHING, NOTHING
        stalls = [search["reached_sparsity"] for search in found if not search["reached"]]
        epochs = mean(search["epoch"] for search in found)
        return f"{epochs:.1f}", f"{mean(stalls):.2%}" if stalls else NOTHING


def _rows_in_words(settings: Mapping[str, Any]) -> list[str]:
    """How a run chooses rows, where it says that itself."""
    words = {"hash": ["hash"], "learned": ["learned codes"]}.get(settings.get("assignment", ""), [])
    return [*words, *([f"{books} books"] if (books := settings.get("codebooks")) else [])]


def cells(recipe: Recipe) -> list[tuple[str, str]]:
    """Backbones and budgets, as the recipe orders them."""
    return [(backbone, budget) for backbone in recipe.backbones for budget in recipe.budgets]


def lines(recipe: Recipe, record: Record, backbone: str, budget: str) -> list[Line]:
    """What is compared in a cell, as the recipe orders it."""
    found = [entry for entry in record.found if is_in_cell(entry, backbone, budget)]
    missing = [entry for entry in record.missing if is_in_cell(entry, backbone, budget)]
    made = [
        Line(
            run,
            [entry for entry in found if entry.run.row == run.row],
            [entry for entry in missing if entry.run.row == run.row],
        )
        for run in recipe.runs
    ]
    return [line for line in made if line.found or line.missing]


def printed_figure(row: Mapping[str, Any] | None, name: str, form: str = "{:.4f}") -> str:
    """A figure of the paper; a dash where it has none."""
    return NOTHING if row is None or name not in row else form.format(row[name])
