"""Everything that is shown of a recipe, out of its record alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cerp.budget import percent_of
from cerp.comparison.metrics import FIGURES, MAIN_METRIC, field_of
from cerp.evaluation.metrics import CONVENTIONS
from cerp.pages.numbers import metric_name
from cerp.pages.tables import TablePage, TableSection, best_in
from cerp.paper.ablation_table import ablation_sections
from cerp.paper.figures import heatmap, sensitivity
from cerp.paper.method_table import method_sections
from cerp.paper.published import published_rows, source
from cerp.paper.recipe import Recipe
from cerp.paper.record import Record, is_in_cell
from cerp.paper.table_lines import Line, cells, lines

Rows = list[tuple[str, ...]]


def recipe_page(recipe: Recipe, record: Record) -> TablePage:
    """Tables, figures and notes."""
    title = f"{recipe.title} ({record.dataset})"
    sections = _SECTIONS[recipe.kind](recipe, record)
    conventions = CONVENTIONS if record.found else ""
    return TablePage(title, sections, _notes(recipe, record), conventions)


STATISTICS_HEADER = ("data set", "users", "items", "interactions", "density")


def statistics_sections(recipe: Recipe, record: Record) -> list[TableSection]:
    """Table 1."""
    printed = published_rows("table1", dataset=record.dataset)
    named = [(record.dataset, record.data), *(("paper", row) for row in printed)]
    rows: Rows = [
        (
            name,
            *(f"{row[key]:,}" for key in ("users", "items", "interactions")),
            f"{row['density_pct']:.3f}%",
        )
        for name, row in named
    ]
    parts = ", ".join(f"{record.data[name]:,} {name}" for name in ("train", "valid", "test"))
    notes = [f"Of the interactions: {parts}."]
    return [TableSection("Counts", STATISTICS_HEADER, rows, notes)]


SENSITIVITY_HEADER = (
    "avg dim",
    *FIGURES.values(),
    "overlap",
    "pruning epochs",
    "stalls at",
    "seeds",
)


def sensitivity_sections(recipe: Recipe, record: Record) -> list[TableSection]:
    """A curve and its table for each backbone; the paper's line is its table 2."""
    assert recipe.setting is not None
    sections = []
    for backbone, budget in cells(recipe):
        here = lines(recipe, record, backbone, budget)
        points = [(str(line.run.value), line.values(field_of(MAIN_METRIC))) for line in here]
        printed = published_rows(
            "table2",
            method="cerp",
            dataset=record.dataset,
            backbone=backbone,
            sparsity=percent_of(budget),
        )
        title = f"{backbone}, {budget}"
        paper = {"paper's table 2": printed[0][field_of(MAIN_METRIC)]} if printed else {}
        figure = None
        if any(seeds for _, seeds in points):
            figure = sensitivity(title, recipe.setting, points, paper)
        header = (recipe.setting, *SENSITIVITY_HEADER)
        rows = [_sensitivity_row(line) for line in here]
        best = best_in(header.index(metric_name(MAIN_METRIC)), [line.score for line in here])
        sections.append(TableSection(title, header, rows, [], best, figure))
    return sections


def _sensitivity_row(line: Line) -> tuple[str, ...]:
    return (
        str(line.run.value),
        line.text("avg_dim", "{:.2f}"),
        *map(line.spread, FIGURES),
        line.text("overlap", "{:.2%}"),
        *line.pruning(),
        line.seeds,
    )


HEATMAP_HEADER = ("entity", "entries that are not zero")


def heatmap_sections(recipe: Recipe, record: Record) -> list[TableSection]:
    """A map for each backbone and variant."""
    sections = []
    for backbone, budget in cells(recipe):
        for entry in record.found:
            if entry.pattern is None or not is_in_cell(entry, backbone, budget):
                continue
            title = f"{backbone}, {budget}, {entry.run.variant}"
            names, vectors = entry.pattern["names"], entry.pattern["nonzero"]
            rows: Rows = [
                (name, str(bits.count("1"))) for name, bits in zip(names, vectors, strict=True)
            ]
            figure = heatmap(title, names, vectors)
            sections.append(TableSection(title, HEATMAP_HEADER, rows, figure=figure))
    return sections


def _notes(recipe: Recipe, record: Record) -> list[str]:
    notes = [recipe.about] if recipe.about else []
    if results := [entry.result for entry in record.found]:
        versions = sorted({result.version for result in results})
        devices = sorted({result.device for result in results})
        seconds = sum(result.seconds or 0 for result in results)
        notes += [
            f"cerp {', '.join(versions)} on {', '.join(devices)}; {seconds:,.0f} seconds of "
            f"training. {recipe.name}-runs.json has the configuration of every run.",
        ]
    if record.id_leak is not None:
        item, user = (record.id_leak[side] for side in ("item_window", "user_window"))
        notes.append(
            "What raw ids give away (NDCG@10 of recommending by nearby ids alone, native against "
            f"shuffled): items {item['native']:.4f} against {item['shuffled']:.4f}, users "
            f"{user['native']:.4f} against {user['shuffled']:.4f}."
        )
    notes.append(f"Data: fingerprint {record.data['fingerprint']}. The paper: {source()}.")
    return [*notes, *_missing_notes(record)]


def _missing_notes(record: Record) -> list[str]:
    """Cells without figures, those of one run and reason together."""
    grouped: dict[str, dict[str, list[int]]] = {}
    for cell in record.missing:
        run = cell.run
        details = (run.preset, run.variant, run.value, *_given(run.settings))
        words = ", ".join(str(word) for word in details if word is not None)
        start = f"Missing: {run.method} ({words}), {cell.why}"
        place = " ".join(filter(None, [cell.backbone, cell.budget]))
        grouped.setdefault(start, {}).setdefault(place, []).append(cell.seed)
    return [f"{start}: {_places(seeds)}." for start, seeds in grouped.items()]


def _places(seeds: dict[str, list[int]]) -> str:
    """Which seeds of which cells, those with the same seeds together."""
    alike: dict[str, list[str]] = {}
    for place, own in seeds.items():
        word = "seed" if len(own) == 1 else "seeds"
        alike.setdefault(f"{word} {', '.join(map(str, own))}", []).append(place)
    return "; ".join(f"{', '.join(places)} {told}".strip() for told, places in alike.items())


def _given(settings: dict[str, Any], prefix: str = "") -> list[str]:
    """Nested settings as ``prune.gamma=0.0``."""
    said: list[str] = []
    for name, value in settings.items():
        is_folder = isinstance(value, dict)
        said += _given(value, f"{prefix}{name}.") if is_folder else [f"{prefix}{name}={value}"]
    return said


_SECTIONS: dict[str, Callable[[Recipe, Record], list[TableSection]]] = {
    "statistics": statistics_sections,
    "methods": method_sections,
    "ablation": ablation_sections,
    "sensitivity": sensitivity_sections,
    "heatmap": heatmap_sections,
}
