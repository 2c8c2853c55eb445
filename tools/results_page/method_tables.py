"""The tables of methods: Gowalla by backbone, the other data, and public leaderboards."""

from __future__ import annotations

from statistics import mean
from typing import Any

from cerp.comparison.metrics import FIGURES
from cerp.pages.tables import markdown_table
from cerp.paper.published import Row, published_rows
from cerp.paper.recipe import read_recipe
from results_page.names import (
    AT_EQUAL_BYTES,
    BACKBONES,
    BUDGETS,
    CERP,
    GOWALLA,
    OTHERS,
    WITHOUT_VECTORS,
    shown_name,
)
from results_page.results_index import (
    MISSING,
    NOTHING,
    OLDER,
    REFUSED,
    ResultsIndex,
    shown_mean,
    shown_spread,
)

TIGHTEST = 99
NOT_ON_OTHER_DATA = (
    *("QR, spectral ids", "DHE, codes counted"),  # shuffled, and by an honest count, there
    *("AutoEmb", "ESAPN", "OptEmbed"),  # which aim at 90%
)


def printed(method: str, backbone: str, percent: int) -> float | None:
    """The paper's NDCG@10 on Gowalla."""
    rows = published_rows(
        "table2", method=method, backbone=backbone, sparsity=percent, dataset="gowalla"
    )
    return rows[0]["ndcg10"] if rows else None


def gowalla_parts(results: ResultsIndex) -> list[str]:
    """For each backbone NDCG@10 by budget, and all figures of the tightest."""
    parts = []
    for backbone in BACKBONES:
        place = {"dataset": "gowalla", "backbone": backbone}
        rows = [("paper's CERP", *(_printed(backbone, percent) for percent in BUDGETS))]
        named = {**CERP, **OTHERS}
        shown = {name: _by_budget(results, {**own, **place}) for name, own in named.items()}
        shown |= _without_vectors(results)
        measured = {name: row for name, row in shown.items() if set(row) - {MISSING, NOTHING}}
        kept = measured if measured else {"CERP": shown["CERP"]}
        rows += [(name, *row) for name, row in kept.items()]
        full = results.shown(method="full", **place)
        popularity = results.shown(method="popularity", dataset="gowalla")
        table = markdown_table(("NDCG@10", *(f"{percent}%" for percent in BUDGETS)), rows)
        below = f"Full size: {full}. Popularity: {popularity}."
        if absent := [name for name in shown if name not in measured]:
            below += f" Not measured yet: {'; '.join(absent)}."
        parts += [f"## Gowalla, {backbone}", table, below, *_all_figures(results, backbone)]
    return parts


def bytes_parts(results: ResultsIndex) -> list[str]:
    """Gowalla at equal bytes, a column for each backbone, the best with a graph first."""
    rows: list[Row] = results.read("gowalla", "table2-bytes.json") or []
    named = {**CERP, **OTHERS, **AT_EQUAL_BYTES, **WITHOUT_VECTORS}
    found: dict[str, list[list[Row]]] = {}
    for name, own in named.items():
        asked = {**own, "accounting": own.get("accounting", "honest"), "refit": None}
        asked.pop("sparsity", None)
        alike = [row for row in rows if asked.items() <= row.items()]
        if alike:
            found[name] = [
                [row for row in alike if row["backbone"] in (one, None)] for one in BACKBONES
            ]
    recipe = read_recipe("table2-bytes")
    in_table = {run.method for run in recipe.runs}
    lacking = [
        name
        for name, own in named.items()
        if own["method"] in in_table and own.get("preset") != "paper" and name not in found
    ]
    ranked = sorted(found.items(), key=lambda entry: -_mean_score(entry[1][0]))
    table = markdown_table(
        ("NDCG@10", *BACKBONES),
        [
            (name, *(shown_spread(own, "ndcg10") or NOTHING for own in cells))
            for name, cells in ranked
        ],
    )
    below = f" Not measured yet: {'; '.join(lacking)}." if lacking else ""
    return [
        f"## Gowalla, {' and '.join(recipe.budgets)} of embedding",
        "The same limit for all: values, positions, scales and the order of ids, in the precision "
        "that validates best ([all figures](../results/gowalla/table2-bytes.md)). The graph, which "
        "the filter and LightGCN need besides, is not counted here, as it is in the frontier's "
        f"files.{below}",
        table,
    ]


def _mean_score(rows: list[Row]) -> float:
    """NDCG@10 over seeds; 0 where there is none."""
    return mean(row["ndcg10"] for row in rows) if rows else 0.0


def _all_figures(results: ResultsIndex, backbone: str) -> list[str]:
    """At the tightest budget: all that is computed, the best first."""
    place = {"dataset": "gowalla", "backbone": backbone}
    asked = {name: {**own, **place, "sparsity": TIGHTEST} for name, own in (CERP | OTHERS).items()}
    asked |= {name: {**own, "dataset": "gowalla"} for name, own in WITHOUT_VECTORS.items()}
    asked["full size"] = {"method": "full", **place}
    asked["popularity"] = {"method": "popularity", "dataset": "gowalla"}
    found = {name: rows for name, own in asked.items() if (rows := results.found(**own))}
    if not found:
        return []
    return [f"All figures at {TIGHTEST}%, means over seeds:", *figures_parts(found)]


def figures_parts(found: dict[str, list[Row]]) -> list[str]:
    """A line for each name, by falling NDCG@10; what no row has is said below."""
    ranked = sorted(found.items(), key=lambda entry: -float(shown_mean(entry[1], "ndcg10")))
    everything = [row for rows in found.values() for row in rows]
    there = [name for name in FIGURES if shown_mean(everything, name) != NOTHING]
    lines = [
        (
            name + OLDER * shown_spread(rows, "ndcg10").endswith(OLDER),
            *(shown_mean(rows, figure) for figure in there),
            str(len(rows)),
        )
        for name, rows in ranked
    ]
    table = markdown_table(("", *(FIGURES[name] for name in there), "seeds"), lines)
    lacking = [FIGURES[name] for name in FIGURES if name not in there]
    if not lacking:
        return [table]
    return [table, f"These rows are older than the records of {', '.join(lacking)}."]


def _by_budget(results: ResultsIndex, wanted: dict[str, Any]) -> tuple[str, ...]:
    """A figure for each budget; a dash where the recipe asks for none."""
    recipe = read_recipe("table2")
    asked = {
        budget
        for run in recipe.runs
        if run.method == wanted["method"]
        and wanted["backbone"] in (run.backbones or recipe.backbones)
        for budget in (run.budgets or recipe.budgets)
    }
    return tuple(
        results.shown(sparsity=percent, **wanted) if f"{percent}%" in asked else NOTHING
        for percent in BUDGETS
    )


def _without_vectors(results: ResultsIndex) -> dict[str, tuple[str, ...]]:
    """The same figures for every backbone, and for every budget where none limits a method."""
    in_table = {run.method for run in read_recipe("table2").runs}
    return {
        name: tuple(
            results.shown(**{**own, **GOWALLA, **({"sparsity": one} if "sparsity" in own else {})})
            for one in BUDGETS
        )
        for name, own in WITHOUT_VECTORS.items()
        if own["method"] in in_table
    }


def _printed(backbone: str, percent: int) -> str:
    found = printed("cerp", backbone, percent)
    return NOTHING if found is None else f"{found:.4f}"


def other_data_parts(results: ResultsIndex, names: list[str]) -> list[str]:
    """NDCG@10 by data set, and all figures of each."""
    cell = {"backbone": "lightgcn", "sparsity": TIGHTEST}
    asked: dict[str, dict[str, Any]] = {
        "popularity": {"method": "popularity"},
        **{name: {**own, **cell} for name, own in CERP.items() if own["preset"] == "default"},
        **{name: {**own, **cell} for name, own in OTHERS.items() if name not in NOT_ON_OTHER_DATA},
        **WITHOUT_VECTORS,
        "full size": {"method": "full"},
    }
    lines, absent = [], []
    for name, wanted in asked.items():
        line = [_of_other_data(results, dataset, wanted) for dataset in names]
        if set(line) == {MISSING}:
            absent.append(name)
        else:
            lines.append((name, *line))
    parts = [markdown_table(("NDCG@10", *names), lines)] if lines else [f"All is {MISSING}."]
    if absent and lines:
        parts.append(f"Not measured yet: {'; '.join(absent)}.")
    for dataset in names:
        found = {
            name: rows
            for name, own in asked.items()
            if (rows := results.found(dataset=dataset, **own))
        }
        if any(row.get("ndcg20") is not None for rows in found.values() for row in rows):
            parts += [f"All figures on {dataset}, means over seeds:", *figures_parts(found)]
    return parts


def _of_other_data(results: ResultsIndex, dataset: str, wanted: dict[str, Any]) -> str:
    shown = results.shown(dataset=dataset, **wanted)
    if shown == MISSING and results.is_refused(dataset, "other-data", wanted["method"]):
        return REFUSED
    return shown


def leaderboard_parts(results: ResultsIndex) -> list[str]:
    """Refits on training and validation at @20, beside what public leaderboards have."""
    public = [
        (
            f"{row['method']} ({row['board']})",
            f"{row['recall20']:.4f}",
            f"{row['ndcg20']:.4f}",
            NOTHING,
        )
        for row in published_rows("leaderboards", dataset="gowalla")
    ]
    rows: list[Row] = results.read("gowalla", "leaderboard.json") or []
    found: dict[str, list[Row]] = {}
    for row in rows:
        place = f", {TIGHTEST}%" if row["sparsity"] == TIGHTEST else ""
        found.setdefault(shown_name(row["method"]) + place, []).append(row)
    ours = [
        (name, shown_mean(own, "recall20"), shown_mean(own, "ndcg20"), str(len(own)))
        for name, own in found.items()
    ]
    table = markdown_table(("Gowalla, refit", "Recall@20", "NDCG@20", "seeds"), public + ours)
    state = "" if ours else f" Ours are {MISSING}: `cerp paper leaderboard`."
    return [
        "## Beside public leaderboards",
        "Leaderboards train on all that is not test. Here settings and epochs are chosen on "
        "validation, and the model is then trained once more on training and validation "
        f"interactions together; same data, same test part.{state}",
        table,
    ]
