"""The record of a recipe, from all results that there are and what earlier calls have kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cerp.artifact import read
from cerp.comparison.jobs import Cell, Job
from cerp.comparison.results import Result, Results
from cerp.comparison.statistics import Judged, differences
from cerp.comparison.worker import JobFolder
from cerp.data.splits import Splits
from cerp.errors import ConfigError, DataError
from cerp.evaluation.id_leak import id_leak
from cerp.files import make_folder
from cerp.naming import model_file
from cerp.paper.planning import Planned
from cerp.paper.recipe import Recipe, RecipeRun
from cerp.paper.record import (
    NOT_RUN,
    Interval,
    MeasuredCell,
    MissingCell,
    Record,
    describe,
    is_in_cell,
)
from cerp.reports.heat import sampled_vectors

CERP = "cerp"


def earlier_record(path: Path, splits: Splits) -> Record | None:
    """The record of earlier calls, which must be of the same data; None where there is none."""
    if not path.exists():
        return None
    earlier = Record.read(path)
    if earlier.data["fingerprint"] != splits.fingerprint:
        raise ConfigError(
            f"{path} is of other data (fingerprint {earlier.data['fingerprint'][:12]}, here "
            f"{splits.fingerprint[:12]}); choose another output folder, or another dataset name"
        )
    return earlier


def take_over(earlier: Record | None, planned: Sequence[Planned], results: Results) -> int:
    """Let the results of earlier calls count, wherever they were run.

    How many do not, because the settings of their runs have changed since, or because other
    conventions judged them; the latter stay in the record until their row is measured again.
    """
    if earlier is None:
        return 0
    names = {one.job.method for one in planned}
    kept = [
        entry.result
        for entry in earlier.found
        if entry.result.method in names and not entry.result.is_older
    ]
    make_folder(results.folder)
    results.add(kept, "the record of earlier calls")
    return len(earlier.found) - len(kept)


def new_record(
    recipe: Recipe,
    dataset: str,
    splits: Splits,
    planned: Sequence[Planned],
    results: Results,
    failed: dict[str, str],
    earlier: Record | None,
) -> Record:
    """The record of a recipe from all results that there are."""
    found = _found(recipe, planned, results, earlier)
    leaks = any(entry.ordering == "native" for entry in found)
    known = earlier.id_leak if earlier else None
    return Record(
        recipe.name,
        dataset,
        describe(splits),
        found,
        _missing(planned, results, failed, earlier),
        _intervals(found, results, earlier) if recipe.kind == "methods" else [],
        (known or id_leak(splits).summary()) if leaks else None,
    )


def _found(
    recipe: Recipe, planned: Sequence[Planned], results: Results, earlier: Record | None
) -> list[MeasuredCell]:
    """In the order of the plan; also seeds that the plan of this call does not have."""
    by_name = {one.job.method: one for one in planned}
    order = {name: place for place, name in enumerate(by_name)}
    kept = [
        result
        for result in results.all
        if result.method in by_name
        and result.error is None
        and result.backbone in (*recipe.backbones, None)
        and result.budget in by_name[result.method].job.budgets
    ]
    kept.sort(key=lambda result: (order[result.method], result.seed))
    patterns = _patterns(kept, results.folder, earlier) if recipe.kind == "heatmap" else {}
    found = [
        MeasuredCell(
            by_name[result.method].run,
            by_name[result.method].ordering,
            result,
            patterns.get(result.cell.name),
            readings_of_test(by_name[result.method].run, result, earlier),
        )
        for result in kept
    ]
    return [*found, *_older(recipe, found, earlier)]


def _older(
    recipe: Recipe, found: Sequence[MeasuredCell], earlier: Record | None
) -> list[MeasuredCell]:
    """Results that other conventions judged, of rows that have none of today's in their cell."""
    rows = [run.row for run in recipe.runs]
    measured = [(entry.run.row, entry.backbone, entry.budget) for entry in found]
    return [
        entry
        for entry in (earlier.found if earlier else [])
        if entry.result.is_older
        and entry.run.row in rows
        and (entry.run.row, entry.backbone, entry.budget) not in measured
    ]


def readings_of_test(run: RecipeRun, result: Result, earlier: Record | None) -> int | None:
    """How often the test part of a row was seen: once more for every result but one that is known.

    Another result is one of other settings, other conventions, or another run of the same.
    """
    same_row = [
        entry
        for entry in (earlier.found if earlier else [])
        if _untrained(entry.run) == _untrained(run)
        and entry.result.cell._replace(method=result.method) == result.cell
    ]
    for entry in same_row:
        if entry.result == result:
            return entry.test_readings
    return 1 + sum(entry.test_readings or 1 for entry in same_row)


def _untrained(run: RecipeRun) -> RecipeRun:
    """Its row, however the recipe trains that."""
    settings = {name: value for name, value in run.settings.items() if name != "train"}
    return replace(run.row, settings=settings)


def _missing(
    planned: Sequence[Planned],
    results: Results,
    failed: dict[str, str],
    earlier: Record | None,
) -> list[MissingCell]:
    """Cells without a result; why one could not be run is told until it is tried again."""
    refused = {result.cell: result.error for result in results.all}
    told = {_place(one.run, one): one.why for one in (earlier.missing if earlier else [])}
    return [
        MissingCell(
            one.run,
            one.ordering,
            cell.backbone,
            cell.budget,
            cell.seed,
            refused.get(cell)
            or failed.get(one.job.name)
            or told.get(_place(one.run, cell), NOT_RUN),
        )
        for one in planned
        for cell in one.job.cells
        if refused.get(cell, NOT_RUN) is not None
    ]


def _place(run: RecipeRun, cell: Cell | MissingCell) -> tuple[str, str | None, str | None, int]:
    """Which entry of a table it is, whatever the settings were that were searched for it."""
    return repr(run.row), cell.backbone, cell.budget, cell.seed


def _patterns(
    found: Sequence[Result], folder: Path, earlier: Record | None
) -> dict[str, dict[str, Any]]:
    """By cell: of models whose file is here, and of those that earlier calls have looked at."""
    known = {
        entry.result.cell.name: entry.pattern
        for entry in (earlier.found if earlier else [])
        if entry.pattern is not None
    }
    for result in found:
        assert result.budget is not None
        job = Job(result.method, result.backbone, result.seed, (result.budget,))
        run = JobFolder.of(folder, job).run(result.budget)
        path = model_file(run, result.budget)
        if path.exists():
            known[result.cell.name] = pattern(path)
    return known


def pattern(path: Path) -> dict[str, Any]:
    """Which entries are not zero in the vectors of ten entities, the same for a data set."""
    found = sampled_vectors(read(path))
    if found is None:
        raise DataError(f"{path} holds propagated vectors, which have no zeros to show")
    names, vectors = found
    return {
        "names": names,
        "nonzero": ["".join("01"[int(value != 0)] for value in row) for row in vectors],
    }


def compared_run(found: Sequence[MeasuredCell]) -> RecipeRun | None:
    """The row that all others are compared with: the first of the recipe's runs of CERP."""
    return next((entry.run.row for entry in found if entry.run.method == CERP), None)


def _intervals(
    found: Sequence[MeasuredCell], results: Results, earlier: Record | None
) -> list[Interval]:
    """CERP against every other run in its cells."""
    cerp = compared_run(found)
    known = {
        (entry.against, entry.backbone, entry.budget): entry
        for entry in (earlier.intervals if earlier else [])
    }
    cells: dict[tuple[str, str, str], tuple[list[Result], list[Result]]] = {}
    for backbone, budget in _cells(found, cerp):
        here = [entry for entry in found if is_in_cell(entry, backbone, budget)]
        mine = [entry.result for entry in here if entry.run.row == cerp]
        rivals = (entry.result.method for entry in here if entry.run.row != cerp)
        for name in dict.fromkeys(rivals):
            others = [entry.result for entry in here if entry.result.method == name]
            if len({one.judging for one in (*mine, *others)}) == 1:
                cells[name, backbone, budget] = mine, others
    judged = _Judgements(results)
    pairs = {
        key: (first, second)
        for key, (mine, others) in cells.items()
        if (first := judged.of(mine)) and (second := judged.of(others))
    }
    new = differences(pairs)
    kept: list[Interval] = []
    for key, (mine, others) in cells.items():
        seeds, before = (len(mine), len(others)), known.get(key)
        if key in new:
            one = new[key]
            kept.append(Interval(*key, seeds, one.mean, one.low, one.high, one.p_value))
        elif before is not None and before.seeds == seeds and before.is_older == mine[0].is_older:
            kept.append(before)  # found on the machine that has the values
    return kept


def _cells(found: Sequence[MeasuredCell], run: RecipeRun | None) -> list[tuple[str, str]]:
    """Backbones and budgets of a row."""
    own = [entry.result for entry in found if entry.run.row == run]
    cells = ((result.backbone, result.budget) for result in own)
    return [(backbone, budget) for backbone, budget in dict.fromkeys(cells) if backbone and budget]


class _Judgements:
    """Per-user values of runs; those of CERP are read once for all of its rivals."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._known: dict[tuple[Cell, ...], Judged] = {}

    def of(self, found: Sequence[Result]) -> Judged | None:
        """All seeds of a run; None where the values of one stayed on another machine."""
        cells = tuple(result.cell for result in found)
        if not all(map(self._results.has_user_values, cells)):
            return None
        if cells not in self._known:
            values = tuple(map(self._results.user_values, cells))
            self._known[cells] = Judged(values, is_random=found[0].is_random)
        return self._known[cells]
