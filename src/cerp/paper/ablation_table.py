"""Table 3: what the parts of CERP are worth, and the paper's figures beside."""

from __future__ import annotations

from cerp.budget import percent_of
from cerp.comparison.metrics import FIGURES, MAIN_METRIC, field_of
from cerp.pages.numbers import metric_name
from cerp.pages.tables import TableSection, best_in
from cerp.paper.published import Row, published_rows
from cerp.paper.recipe import Recipe
from cerp.paper.record import Record
from cerp.paper.table_lines import Line, cells, lines, printed_figure

MAIN = metric_name(MAIN_METRIC)
SCORE = field_of(MAIN_METRIC)
HEADER = (
    "variant",
    "avg dim",
    *FIGURES.values(),
    "overlap",
    "pruning epochs",
    "stalls at",
    "seeds",
    "paper's avg dim",
    f"paper's {MAIN}",
    "paper's overlap",
    "paper's stall",
)


def ablation_sections(recipe: Recipe, record: Record) -> list[TableSection]:
    """One for each preset, backbone and budget."""
    sections = []
    for preset in dict.fromkeys(run.preset for run in recipe.runs):
        for backbone, budget in cells(recipe):
            here = [
                line
                for line in lines(recipe, record, backbone, budget)
                if line.run.preset == preset
            ]
            printed = published_rows(
                "table3", dataset=record.dataset, backbone=backbone, sparsity=percent_of(budget)
            )
            by_variant = {row["variant"]: row for row in printed}
            rows = [_row(line, by_variant.get(line.run.variant)) for line in here]
            title = f"{preset} preset, {backbone}, {budget}"
            best = best_in(HEADER.index(MAIN), [line.score for line in here])
            sections.append(TableSection(title, HEADER, rows, _directions(here), best))
    return sections


def _row(line: Line, printed: Row | None) -> tuple[str, ...]:
    return (
        line.run.variant or line.name,
        line.text("avg_dim", "{:.2f}"),
        *map(line.spread, FIGURES),
        line.text("overlap", "{:.2%}"),
        *line.pruning(),
        line.seeds,
        printed_figure(printed, "avg_dim", "{:.2f}"),
        printed_figure(printed, SCORE),
        printed_figure(printed, "overlap_pct", "{:.2f}%"),
        printed_figure(printed, "stalls_at", "{:.2f}%"),
    )


def _directions(here: list[Line]) -> list[str]:
    """Whether the penalty does what the paper says: a higher dimension, a lower overlap."""
    found = {line.run.variant: line for line in here if line.found}
    if "default" not in found or "no_penalty" not in found:
        return []
    with_it, without = found["default"], found["no_penalty"]
    wider = with_it.mean("avg_dim") - without.mean("avg_dim")
    shared = 100 * (with_it.mean("overlap") - without.mean("overlap"))
    return [
        f"The penalty changes the average dimension by {wider:+.2f} "
        f"({'as' if wider > 0 else 'not as'} in the paper) and the overlap by {shared:+.2f} points "
        f"({'as' if shared < 0 else 'not as'} in the paper)."
    ]
