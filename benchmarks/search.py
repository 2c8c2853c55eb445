"""Settings of every method, with equal effort; writes results/<dataset>/search.json.

    CERP_DATA_DIR=... python benchmarks/search.py [--dataset gowalla] [--device cuda]
        [--methods ud,qr] [--backbones lightgcn] [--budgets 99%,90%] [--trials 16] [--epochs 15]
        [--dim 128] [--collect]

`cerp tune` for each method, backbone and budget: the same number of trials and epochs for all,
CERP included, validation NDCG@10, the test part withheld. A method is searched at all budgets that
are asked for and that it can meet; AutoEmb, ESAPN, OptEmbed and DHE, which aim at 90%, there alone.
The best settings go to src/cerp/paper/searched.json, which the recipes of `cerp paper` use, where
they were searched with the dimension of the recipes; those of full size with LightGCN come from the
longer search of `full_size.py`. Gowalla's trials are still those of an earlier grid.

Trials are kept in runs/search: a killed search goes on, and several processes
that run this script divide it up. With ``--collect`` nothing is trained: what
there is is put together.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from machine import RESULTS, write_figures

from cerp.comparison.tune import TRIALS, tune
from cerp.data.datasets import load
from cerp.errors import BudgetError
from cerp.paper.searched import best_by_budget

METHODS = (
    *(
        "cerp-hash",
        "cerp-learned",
        "ud",
        "qr",
        "pep",
        "hash",
        "magnitude",
        "dhe",
        "optembed",
        "autoemb",
        "esapn",
    ),
    *("lowrank", "features", "graphhash", "cce", "legcf", "pq", "opq", "rq", "pca", "full"),
)
AT_90_ALONE = ("dhe", "optembed", "autoemb", "esapn")
WITH_A_GRAPH = ("legcf",)
"""What has a graph of its own, and stands in LightGCN's table alone."""
BUDGETS = ("99%", "90%")
BACKBONES = ("lightgcn", "mlp")
EPOCHS = 15
USED_DIMENSION = 128
"""Of the recipes: settings for another one are only kept among the trials."""
LONGER = ("full", "lightgcn")
FOLDER = Path("runs/search")
REFUSED = "refused.json"
SEARCHED = Path(__file__).parents[1] / "src/cerp/paper/searched.json"


class Asked(NamedTuple):
    """One search."""

    method: str
    backbone: str
    budget: str

    @property
    def name(self) -> str:
        """As its folder is called."""
        return f"{self.method}-{self.backbone}-{self.budget.rstrip('%')}"


def main() -> None:
    """Search what is asked for, and put together what there is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", default="gowalla")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--backbones", default=",".join(BACKBONES))
    parser.add_argument("--budgets", default=",".join(BUDGETS))
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--dim", type=int, default=USED_DIMENSION)
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    folder = FOLDER / given.dataset
    if not given.collect:
        splits = load(str(Path(os.environ["CERP_DATA_DIR"]) / given.dataset), seed=0)
        for asked in questions(given):
            try:
                best = tune(
                    splits,
                    asked.method,
                    backbone=asked.backbone,
                    budget=asked.budget,
                    epochs=given.epochs,
                    trials=given.trials,
                    dim=given.dim,
                    output=folder / asked.name,
                    device=given.device,
                    verbose=False,
                )
                print(f"{asked.name}: {best.valid:.4f} in {len(best.trials)} trials", flush=True)
            except BudgetError as error:
                print(f"{asked.name}: {error}", flush=True)
                write_figures(folder / asked.name / REFUSED, {"why": str(error)})
    collect(folder, given)


def questions(given: argparse.Namespace) -> list[Asked]:
    """What to search."""
    return [
        Asked(method, backbone, budget)
        for backbone, method in product(given.backbones.split(","), given.methods.split(","))
        for budget in given.budgets.split(",")
        if budget == "90%" or method not in AT_90_ALONE
        if method not in WITH_A_GRAPH or backbone == "lightgcn"
    ]


def collect(folder: Path, given: argparse.Namespace) -> None:
    """Write all trials of the searches that are done, and the best settings."""
    asked = questions(given)
    paths = {one: folder / one.name / "best.json" for one in asked}
    done = {one: read(path) for one, path in paths.items() if path.exists()}
    refused = {
        one.name: read(folder / one.name / REFUSED)["why"]
        for one in asked
        if (folder / one.name / REFUSED).exists()
    }
    best: dict[str, dict[str, Any]] = {backbone: {} for backbone in given.backbones.split(",")}
    for backbone, method in dict.fromkeys((one.backbone, one.method) for one in asked):
        mine = [one for one in asked if (one.backbone, one.method) == (backbone, method)]
        found = [done[one] for one in mine if one in done]
        if found and all(one in done or one.name in refused for one in mine):
            best[backbone][method] = best_by_budget(found)
            if (method, backbone) == LONGER:
                best[backbone][method] |= longer_search(given.dataset, best[backbone][method])
            for budget, settings in best[backbone][method].items():
                print(f"{method:10} {backbone:9} {budget:4} {settings}")
    missing = [one.name for one in asked if one not in done and one.name not in refused]
    figures = {"dim": given.dim, "trials": given.trials, "epochs": given.epochs}
    searches = {"searches": list(done.values()), "refused": refused, "missing": missing}
    write_figures(RESULTS / given.dataset / "search.json", {**figures, **searches, "best": best})
    if given.dim == USED_DIMENSION:
        write_figures(SEARCHED, read(SEARCHED) | {given.dataset: best})


def longer_search(dataset: str, budgets: Iterable[str]) -> dict[str, Any]:
    """What `full_size.py` chose, where it was run."""
    path = RESULTS / dataset / "full_size.json"
    if not path.exists():
        return {}
    settings = {f"train.{name}": value for name, value in read(path)["chosen"].items()}
    return dict.fromkeys(budgets, settings)


def read(path: Path) -> dict[str, Any]:
    """A JSON file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    main()
