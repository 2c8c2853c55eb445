"""docs/results.md: what agrees with the paper, what does not, and why.

    make results-page

Every figure on the page is read from a JSON file in the results folder when the
page is built; one that is not there is called missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cerp.pages.tables import markdown_table
from cerp.paper.recipe import read_recipe, recipe_names
from results_page.findings import BACKBONES, BUDGETS, CERP, findings, printed
from results_page.frontier import frontier_parts
from results_page.results_index import MISSING, REFUSED, ResultsIndex

WANTED = {
    "gowalla": [name for name in recipe_names() if name != "other-data"],
    "yelp2020": [name for name in recipe_names() if name != "other-data"],
    "ml-1m": ["table1", "other-data"],
    "lastfm": ["table1", "other-data"],
    "amazon-beauty": ["table1", "other-data"],
}
"""What is to be results, by data set."""
OTHERS: dict[str, dict[str, Any]] = {
    "UD": {"method": "ud"},
    "QR, shuffled ids": {"method": "qr", "ordering": "shuffled"},
    "QR, spectral ids": {"method": "qr", "ordering": "spectral"},
    "PEP": {"method": "pep"},
    "random hash": {"method": "hash"},
    "magnitude": {"method": "magnitude"},
    "DHE, codes counted": {"method": "dhe", "accounting": "paper"},
    "DHE, weights counted": {"method": "dhe", "accounting": "honest"},
    "AutoEmb": {"method": "autoemb"},
    "ESAPN": {"method": "esapn"},
    "OptEmbed": {"method": "optembed"},
}
"""The rows of other methods, by the names that the page gives them."""


def summary(folder: Path) -> str:
    """The page."""
    results = ResultsIndex(folder)
    parts = [
        "# Results",
        "Built by `make results-page` from the JSON files in "
        "`results/`; nothing here was typed by hand but the explanations. `cerp paper NAME` "
        "measures what is missing and goes on where it was. All figures are test NDCG@10 with the "
        "conventions of `cerp.evaluation.evaluate`, mean ± deviation over seeds.",
        "The paper's tables and the other data were judged before two of these conventions: items "
        "that training never saw could be recommended, and users without training rows got the "
        "model's list. That concerns 2 of Gowalla's items, 45 of ml-1m's, 3,415 of lastfm's and "
        "4,396 of amazon-beauty's.",
        "## What has been measured",
        _status_table(results),
        "Yelp2020 runs by the same commands where its file can be had; its training part cannot "
        "be had here. `results/yelp_shape.json` has time and memory on made-up data of its shape.",
        *_gowalla_parts(results),
        "## On other data, LightGCN, 99%",
        _other_data_table(results),
        "QR's smallest tables have about 2·√N rows of d values; where that is above 1% of N·d, the "
        "budget is refused.",
        *_full_size_gains(results),
        *frontier_parts(folder, tuple(WANTED)),
        "## What agrees, what does not, and why",
        "\n".join(f"- {finding}" for finding in findings(results)),
    ]
    return "\n\n".join(parts) + "\n"


def _status_table(results: ResultsIndex) -> str:
    rows = [
        (recipe, *(_status(results, dataset, recipe) for dataset in WANTED))
        for recipe in recipe_names()
    ]
    return markdown_table(("recipe", *WANTED), rows)


def _status(results: ResultsIndex, dataset: str, recipe: str) -> str:
    return results.status(dataset, recipe) if recipe in WANTED[dataset] else "-"


def _gowalla_parts(results: ResultsIndex) -> list[str]:
    parts = []
    for backbone in BACKBONES:
        place = {"dataset": "gowalla", "backbone": backbone}
        rows = [("paper's CERP", *(_printed(backbone, percent) for percent in BUDGETS))]
        for name, wanted in {**CERP, **OTHERS}.items():
            rows.append((name, *_by_budget(results, {**wanted, **place})))
        full = results.shown(method="full", **place)
        popularity = results.shown(method="popularity", dataset="gowalla")
        table = markdown_table(("Gowalla", *(f"{percent}%" for percent in BUDGETS)), rows)
        floor = f"Full size: {full}. Popularity: {popularity}."
        parts += [f"## Gowalla, {backbone}", table, floor]
    return parts


def _by_budget(results: ResultsIndex, wanted: dict[str, Any]) -> tuple[str, ...]:
    """A figure for each budget; a dash where the recipe asks for none."""
    recipe = read_recipe("table2")
    asked = {
        budget
        for run in recipe.runs
        if run.method == wanted["method"]
        for budget in (run.budgets or recipe.budgets)
    }
    return tuple(
        results.shown(sparsity=percent, **wanted) if f"{percent}%" in asked else "-"
        for percent in BUDGETS
    )


def _other_data_table(results: ResultsIndex) -> str:
    names = [name for name in WANTED if "other-data" in WANTED[name]]
    kinds: dict[str, dict[str, Any]] = {
        "popularity": {"method": "popularity"},
        "CERP": {"method": "cerp", "sparsity": 99, "ordering": "spectral"},
        "CERP, learned rows": {"method": "cerp-learned", "sparsity": 99},
        "CERP, shuffled ids": {"method": "cerp", "sparsity": 99, "ordering": "shuffled"},
        "UD": {"method": "ud", "sparsity": 99},
        "QR, shuffled ids": {"method": "qr", "sparsity": 99},
        "full": {"method": "full"},
    }
    rows = [
        (kind, *(_of_other_data(results, name, wanted) for name in names))
        for kind, wanted in kinds.items()
    ]
    return markdown_table(("", *names), rows)


def _of_other_data(results: ResultsIndex, dataset: str, wanted: dict[str, Any]) -> str:
    shown = results.shown(dataset=dataset, **wanted)
    if shown == MISSING and results.is_refused(dataset, "other-data", wanted["method"]):
        return REFUSED
    return shown


def _full_size_gains(results: ResultsIndex) -> list[str]:
    """What a search for each data set would do for full size, next to its preset."""
    gains = []
    for name in (name for name in WANTED if "other-data" in WANTED[name]):
        searched = results.read(name, "full_size.json")
        if searched is not None:
            preset, *others = (trial["valid_ndcg@10"] for trial in searched["trials"])
            gains.append(f"{max(others) / preset - 1:.1%} on {name}")
    if not gains:
        return []
    return [
        "Full size has its preset here, as CERP has: one for all data sets. A search for each of "
        "them (`full_size.json`; AdamW's decay does it) makes it better on validation: "
        f"{', '.join(gains)}. CERP's share of it is smaller by as much."
    ]


def _printed(backbone: str, percent: int) -> str:
    found = printed("cerp", backbone, percent)
    return "-" if found is None else f"{found:.4f}"
