"""docs/results.md: what was found, the tables, and what agrees with the paper.

    make results-page

Every figure on the page is read from a JSON file in the results folder when the
page is built; one that is not there is called missing.
"""

from __future__ import annotations

from pathlib import Path

from cerp.pages.tables import markdown_table
from cerp.paper.recipe import recipe_names
from results_page.findings import findings
from results_page.frontier import frontier_parts
from results_page.method_tables import (
    bytes_parts,
    gowalla_parts,
    leaderboard_parts,
    other_data_parts,
)
from results_page.opening import opening
from results_page.outside import outside_parts
from results_page.results_index import OLDER, ResultsIndex
from results_page.standing import standing_parts
from results_page.within_hull import choice_parts

OTHER, BOARD = "other-data", "leaderboard"
OF_THE_PAPER = [name for name in recipe_names() if name not in (OTHER, BOARD)]
WANTED = {
    "gowalla": [*OF_THE_PAPER, BOARD],
    "yelp2020": OF_THE_PAPER,
    "ml-1m": ["table1", OTHER],
    "lastfm": ["table1", OTHER],
    "amazon-beauty": ["table1", OTHER],
}
"""What is to be in results, by data set."""


def summary(folder: Path) -> str:
    """The page."""
    results = ResultsIndex(folder)
    others = [name for name in WANTED if OTHER in WANTED[name]]
    parts = [
        "# Results",
        *opening(results),
        "All that follows is test NDCG@10 by the conventions of `cerp.evaluation.evaluate`, mean ± "
        "deviation over seeds, unless a table says otherwise. Budgets are shares of the full "
        "table's numbers that are *not* kept: at 99% one in a hundred is.",
        *_older_note(results),
        *gowalla_parts(results),
        *bytes_parts(results),
        *standing_parts(results),
        "## On other data, LightGCN, 99%",
        *other_data_parts(results, others),
        "QR's smallest tables have about 2·√N rows of d values; where that is above 1% of N·d, the "
        "budget is refused. EASE with all weights is refused above 20,000 items.",
        *_searches(results, others),
        *_full_size_gains(results, others),
        *leaderboard_parts(results),
        *frontier_parts(folder, tuple(WANTED)),
        *choice_parts(folder),
        "## What agrees, what does not, and why",
        *findings(results),
        *outside_parts(results),
        "## What has been measured",
        _status_table(results),
        "Yelp2020 runs by the same commands where its file can be had; its training part cannot "
        "be had here. `results/yelp_shape.json` has time and memory on made-up data of its shape.",
        "Built by `make results-page` from the JSON files in `results/`; nothing here was typed by "
        "hand but the explanations. `cerp paper NAME` measures what is missing and goes on where "
        "it was; `python benchmarks/tables.py` does so for all of Gowalla.",
    ]
    return "\n\n".join(parts) + "\n"


def _older_note(results: ResultsIndex) -> list[str]:
    """What is to be known of rows that other conventions judged, where there are such."""
    if not any(row.get("judging") == 1 for row in results.rows):
        return []
    return [
        f"{OLDER} marks rows that were judged before two of these conventions: items that training "
        "never saw could be recommended, and users without training rows got the model's list. "
        "That concerns 2 of Gowalla's items, 45 of ml-1m's, 3,415 of lastfm's and 4,396 of "
        "amazon-beauty's. They are never put into one row, or one comparison, with others."
    ]


def _status_table(results: ResultsIndex) -> str:
    rows = [
        (recipe, *(_status(results, dataset, recipe) for dataset in WANTED))
        for recipe in recipe_names()
    ]
    return markdown_table(("recipe", *WANTED), rows)


def _status(results: ResultsIndex, dataset: str, recipe: str) -> str:
    return results.status(dataset, recipe) if recipe in WANTED[dataset] else "-"


def _full_size_gains(results: ResultsIndex, names: list[str]) -> list[str]:
    """What a search would do for full size, on the data sets where it has its preset."""
    gains = []
    for name in names:
        searched = results.read(name, "full_size.json")
        if searched is not None and "full" not in _searched_methods(results, name):
            preset, *others = (trial["valid_ndcg@10"] for trial in searched["trials"])
            gains.append(f"{max(others) / preset - 1:.1%} on {name}")
    if not gains:
        return []
    return [
        "Elsewhere full size has its preset, as CERP has. A search (`full_size.json`; AdamW's "
        f"decay does it) makes it better on validation: {', '.join(gains)}. CERP's share of it is "
        "smaller by as much."
    ]


def _searches(results: ResultsIndex, names: list[str]) -> list[str]:
    """On which data sets settings were searched, and with what effort."""
    told = []
    for name in names:
        figures, methods = results.read(name, "search.json"), _searched_methods(results, name)
        if figures is not None and methods:
            told.append(
                f"On {name} the settings of {len(methods)} methods were searched on validation, "
                f"{figures['trials']} trials of {figures['epochs']} epochs for each, CERP included "
                "(`search.json`); others that are trained have their presets."
            )
    return told


def _searched_methods(results: ResultsIndex, name: str) -> list[str]:
    """The methods that recipes train with LightGCN by settings searched for a data set."""
    figures = results.read(name, "search.json")
    return [] if figures is None else list(figures["best"].get("lightgcn", {}))
