"""Settings of every method, with equal effort; writes results/<dataset>/search.json.

    CERP_DATA_DIR=... python benchmarks/search.py [--dataset gowalla] [--device cuda]
        [--methods ud,qr] [--backbones lightgcn] [--budgets 99%,90%] [--trials 16] [--epochs 15]
        [--dim 128] [--processes 8] [--collect]

`cerp tune` for each method, backbone and budget: the same number of trials and epochs for all,
CERP included, validation NDCG@10, the test part withheld. A method is searched at all budgets that
are asked for and that it can meet; AutoEmb, ESAPN, OptEmbed and DHE, which aim at 90%, there and
nowhere else.
The best settings go to src/cerp/paper/searched.json, which the recipes of `cerp paper` use, where
they were searched with the dimension of the recipes; those of full size with LightGCN come from the
longer search of `full_size.py`. What compresses a trained full table trains it by these too, unless
it is named in ``--methods``.

Trials are kept in runs/search: a killed search goes on where it was. ``--processes`` so many
searches go on at a time. With ``--collect`` nothing is trained: what there is is put together. A
method that was not searched again keeps the settings that it had, also for single budgets, and its
trials are kept as ``earlier``.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from machine import RESULTS, write_figures

from cerp.comparison.tune import TRIALS, tune
from cerp.data.datasets import load
from cerp.errors import BudgetError
from cerp.paper.searched import best_by_budget
from cerp.training.malloc import freed_memory_kept

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
    *("lowrank", "features", "graphhash", "cce", "legcf", "full"),
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
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    folder = FOLDER / given.dataset
    if not given.collect:
        with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
            for line in pool.map(partial(search, given, folder), questions(given)):
                print(line, flush=True)
    collect(folder, given)


def search(given: argparse.Namespace, folder: Path, asked: Asked) -> str:
    """One search, and what came of it."""
    try:
        with freed_memory_kept(given.device):
            best = tune(
                load(str(Path(os.environ["CERP_DATA_DIR"]) / given.dataset), seed=0),
                asked.method,
                backbone=asked.backbone,
                budget=asked.budget,
                epochs=given.epochs,
                trials=given.trials,
                dim=given.dim,
                longer=False,  # recipes train what is found until validation stops rising
                output=folder / asked.name,
                device=given.device,
                verbose=False,
            )
    except BudgetError as error:
        write_figures(folder / asked.name / REFUSED, {"why": str(error)})
        return f"{asked.name}: {error}"
    return f"{asked.name}: {best.valid:.4f} in {len(best.trials)} trials"


def questions(given: argparse.Namespace) -> list[Asked]:
    """What to search."""
    return [
        Asked(method, backbone, budget)
        for backbone, method in product(given.backbones.split(","), given.methods.split(","))
        for budget in (["90%"] if method in AT_90_ALONE else given.budgets.split(","))
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
    before = earlier(RESULTS / given.dataset / "search.json", set(done))
    there = read(SEARCHED)
    best: dict[str, dict[str, Any]] = there.get(given.dataset, {}) if is_used(given) else {}
    for backbone, method in dict.fromkeys((one.backbone, one.method) for one in asked):
        mine = [one for one in asked if (one.backbone, one.method) == (backbone, method)]
        found = [done[one] for one in mine if one in done]
        if found and all(one in done or one.name in refused for one in mine):
            own = best.setdefault(backbone, {})
            kept = [one for one in before if (one["backbone"], one["method"]) == (backbone, method)]
            own[method] = (best_by_budget(kept) if kept else {}) | best_by_budget(found)
            if (method, backbone) == LONGER:
                own[method] |= longer_search(given.dataset, own[method])
            for budget, settings in own[method].items():
                print(f"{method:10} {backbone:9} {budget:4} {settings}")
    missing = [one.name for one in asked if one not in done and one.name not in refused]
    figures = {"dim": given.dim, "trials": given.trials, "epochs": given.epochs}
    searches = {
        "searches": list(done.values()),
        "earlier": before,
        "refused": refused,
        "missing": missing,
    }
    write_figures(RESULTS / given.dataset / "search.json", {**figures, **searches, "best": best})
    if is_used(given):
        write_figures(SEARCHED, there | {given.dataset: best})


def is_used(given: argparse.Namespace) -> bool:
    """Whether recipes train by what is found."""
    return bool(given.dim == USED_DIMENSION)


def earlier(path: Path, done: set[Asked]) -> list[dict[str, Any]]:
    """Searches of a former grid, or of a former collection, that were not made again."""
    there = read(path) if path.exists() else {"searches": []}
    return [
        one
        for one in [*there["searches"], *there.get("earlier", [])]
        if Asked(one["method"], one["backbone"], one["budget"]) not in done
    ]


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
