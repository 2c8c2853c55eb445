"""What the penalty, the thresholds and the buckets do, beside what the paper says of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from cerp.pages.tables import markdown_table
from cerp.paper.published import Row
from results_page.names import BACKBONES
from results_page.regularizer import regularizer_parts
from results_page.results_index import MISSING, ResultsIndex, shown_spread

NOTHING_LEFT = 1e-3
"""Of gamma's start: below, the penalty is over before entries are pruned."""


def penalty_parts(results: ResultsIndex) -> list[str]:
    """Average dimension and overlap with the penalty and without."""
    rows = _ablation_rows(results)
    without = [row for row in rows if row["variant"] == "no_penalty"]
    start = [
        "### The penalty",
        "In the paper it raises the average dimension and lowers the overlap of two vectors.",
        *regularizer_parts(results),
    ]
    if not without:
        return [*start, f"Figures: {MISSING}."]
    lines = [
        ("gamma halved after every epoch", *_directions(rows, "default", without)),
        ("gamma keeps its first value", *_directions(rows, "no_gamma_decay", without)),
    ]
    header = ("table 3, both presets", "raises the dimension", "lowers the overlap")
    return [
        *start,
        markdown_table(header, lines),
        *_pruned_when(rows),
        *_larger_gammas(results, without),
    ]


def _pruned_when(rows: Sequence[Row]) -> list[str]:
    """What was left of gamma when the paper preset met its loosest budget."""
    loosest = min(row["sparsity"] for row in rows)
    epochs = [
        row["pruning_epochs"]
        for row in rows
        if row["preset"] == "paper"
        and row["variant"] == "default"
        and row["sparsity"] == loosest
        and row.get("pruning_epochs") is not None
    ]
    if not epochs:
        return []
    left = 0.5 ** int(mean(epochs))
    told = (
        f"The paper preset met {loosest}% in epoch {mean(epochs):.1f}, when gamma was at "
        f"{left:.2g} of its start."
    )
    if left < NOTHING_LEFT:
        told += (
            " So these figures compare nothing with nothing: they are of the clock that the preset "
            "had when they were measured."
        )
    return [told]


def _directions(rows: Sequence[Row], variant: str, without: Sequence[Row]) -> tuple[str, str]:
    """In how many cells a variant moves as in the paper, beside that without the penalty."""
    pairs = [
        (row, other)
        for row in rows
        for other in without
        if row["variant"] == variant and _is_same(row, other)
    ]
    wider = sum(row["avg_dim"] > other["avg_dim"] for row, other in pairs)
    less = sum(row["overlap_pct"] < other["overlap_pct"] for row, other in pairs)
    return f"in {wider} of {len(pairs)} cells", f"in {less} of {len(pairs)}"


def _larger_gammas(results: ResultsIndex, without: Sequence[Row]) -> list[str]:
    """How the penalty acts when it weighs more, from the figure on γ."""
    rows: list[Row] = results.read("gowalla", "fig-gamma.json") or []
    lines = []
    for base in without:
        same = sorted((row for row in rows if _is_same(row, base)), key=lambda row: row["value"])
        if len(same) > 1:
            named = [("no penalty", base), *((f"{row['value']:g}", row) for row in same)]
            lines += [(f"{base['backbone']}, {name}", *_sharing(row)) for name, row in named]
    if not lines:
        return []
    return [
        "By gamma, at 99%. Loss and penalty are both sums over the batch, divided by its "
        "positives, so gamma is that of the paper's equation at any batch size; the authors' code "
        "divides the loss alone, by 10 positives, so that its gamma of 1 is 10 here.",
        markdown_table(("gamma", "average dimension", "overlap", "NDCG@10"), lines),
    ]


def _sharing(row: Row) -> tuple[str, str, str]:
    score = shown_spread([row], "ndcg10")
    return f"{row['avg_dim']:.2f}", f"{row['overlap_pct']:.2f}%", score


def stall_parts(results: ResultsIndex) -> list[str]:
    """Where free pruning did not reach its budget."""
    rows = [row for row in _ablation_rows(results) if row["preset"] == "paper"]
    stalled: dict[str, list[float]] = {}
    for row in rows:
        if row["stalls_at"] is not None:
            cell = f"{row['variant']}, {row['backbone']}, {row['sparsity']}%"
            stalled.setdefault(cell, []).append(row["stalls_at"])
    start = [
        "### Free pruning can stall before its budget",
        "The paper reports it without the decay of gamma alone. Not reached in 50 epochs here, and "
        "finished by projection:" + ("" if stalled else f" {'none' if rows else MISSING}."),
    ]
    lines = [(cell, f"{mean(places):.2f}%") for cell, places in stalled.items()]
    return [*start, markdown_table(("paper preset", "stalls at"), lines)] if lines else start


SENSITIVITIES = {
    "fig-gamma": "LightGCN is more sensitive to gamma than the MLP.",
    "fig-buckets": "More buckets are not always better.",
    "fig-threshold": "Long-tail thresholds are mostly the best, and ones as good with LightGCN.",
}
"""What the paper says of its figures, by recipe."""


def sensitivity_parts(results: ResultsIndex) -> list[str]:
    """NDCG@10 by value for each backbone; the paper prints curves without numbers."""
    parts = ["### Sensitivity at 99%, paper preset"]
    for recipe, claim in SENSITIVITIES.items():
        rows: list[Row] = results.read("gowalla", f"{recipe}.json") or []
        parts.append(f"The paper: {claim}" + ("" if rows else f" Here: {MISSING}."))
        if rows:
            by_value = {backbone: _by_value(rows, backbone) for backbone in BACKBONES}
            values = list(dict.fromkeys(row["value"] for row in rows))
            lines = [
                (str(value), *(by_value[backbone].get(value, MISSING) for backbone in BACKBONES))
                for value in values
            ]
            parts.append(markdown_table((rows[0]["setting"], *BACKBONES), lines))
    return parts


def _by_value(rows: Sequence[Row], backbone: str) -> dict[Any, str]:
    by_value: dict[Any, list[Row]] = {}
    for row in rows:
        if row["backbone"] == backbone:
            by_value.setdefault(row["value"], []).append(row)
    return {value: shown_spread(found, "ndcg10") for value, found in by_value.items()}


def _ablation_rows(results: ResultsIndex) -> list[Row]:
    return results.read("gowalla", "table3.json") or []


def _is_same(first: Row, second: Row) -> bool:
    names = ("backbone", "sparsity", "preset", "seed")
    return all(first[name] == second[name] for name in names)
