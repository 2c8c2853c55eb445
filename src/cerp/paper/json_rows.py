"""Rows: a record's figures, flat, with the keys of the paper's tables in published.json."""

from __future__ import annotations

from collections.abc import Callable

from cerp.budget import percent_of
from cerp.comparison.metrics import FIGURES
from cerp.comparison.results import Result
from cerp.paper.published import Row
from cerp.paper.recipe import Recipe
from cerp.paper.record import MeasuredCell, Record


def rows(recipe: Recipe, record: Record) -> list[Row]:
    """One for each cell that was run, as ``<recipe>.json`` has them."""
    if recipe.kind == "statistics":
        return [{"dataset": record.dataset, **record.data}]
    return [
        {**_OWN_KEYS[recipe.kind](recipe, entry), **_shared_keys(entry, record.dataset)}
        for entry in record.found
    ]


def target_sparsity(entry: MeasuredCell) -> float:
    """The percent that was aimed at, such as 99; without such an aim, the achieved one."""
    if entry.budget is not None and (percent := percent_of(entry.budget)) is not None:
        return percent
    # Popularity stores no embedding at all.
    achieved = 1.0 if entry.result.sparsity is None else entry.result.sparsity
    return round(100 * achieved, 2)


def accounting(entry: MeasuredCell) -> str:
    """What is counted; ``honest``: every stored value; ``paper``: what the paper counts.

    DHE's hash codes count in the paper, though its network is all there is to store; AutoEmb's
    and ESAPN's controllers do not.
    """
    counted, stored = entry.result.paper_count, entry.result.stored_count
    return "honest" if counted == stored else "paper"


def stored_bytes(result: Result) -> int | None:
    """Of the embedding in the model file; of a method without a file, 4 for each stored value."""
    if result.embedding_bytes is not None or result.stored_count is None:
        return result.embedding_bytes
    return 4 * result.stored_count


def _shared_keys(entry: MeasuredCell, dataset: str) -> Row:
    result = entry.result
    return {
        "dataset": dataset,
        "backbone": result.backbone,
        "sparsity": target_sparsity(entry),
        "avg_dim": result.avg_dim or 0.0,
        **{name: getattr(result, name) for name in FIGURES},
        "seed": result.seed,
        "best_epoch": result.best_epoch,
        "test_readings": entry.test_readings,
        "judging": result.judging or 1,
        "nnz": result.nnz or 0,
        "bytes": stored_bytes(result),
        **_codebooks(result),
        "preset": entry.run.preset,
        "ordering": entry.ordering,
        "refit": (result.config or {}).get("refit"),
        "accounting": accounting(entry),
        "seconds": result.seconds,
    }


def _codebooks(result: Result) -> Row:
    """How entities get rows of codebooks. Where the result is older than the choice: by a hash."""
    config = result.config or {}
    has_some = config.get("method") == "cerp"
    has_some |= config.get("method_options", {}).get("of") == "codebooks"
    if result.assignment is None and has_some:
        return {"assignment": "hash", "codebooks": 2}
    return {"assignment": result.assignment, "codebooks": result.codebooks}


def _of_methods(recipe: Recipe, entry: MeasuredCell) -> Row:
    return {"method": entry.run.method}


def _of_ablation(recipe: Recipe, entry: MeasuredCell) -> Row:
    return {"variant": entry.run.variant, **_pruning(entry)}


def _of_sensitivity(recipe: Recipe, entry: MeasuredCell) -> Row:
    return {"setting": recipe.setting, "value": entry.run.value, **_pruning(entry)}


def _of_heatmap(recipe: Recipe, entry: MeasuredCell) -> Row:
    return {**_of_ablation(recipe, entry), **(entry.pattern or {})}


def _pruning(entry: MeasuredCell) -> Row:
    """Overlap and how pruning went; ``stalls_at`` is the percent where it did not get on."""
    search = entry.result.search or {}
    return {
        "overlap_pct": 100 * (entry.result.overlap or 0.0),
        "pruning_epochs": search["epoch"],
        "stalls_at": None if search["reached"] else 100 * search["reached_sparsity"],
    }


_OWN_KEYS: dict[str, Callable[[Recipe, MeasuredCell], Row]] = {
    "methods": _of_methods,
    "ablation": _of_ablation,
    "sensitivity": _of_sensitivity,
    "heatmap": _of_heatmap,
}
