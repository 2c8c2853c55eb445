"""Learning rate and weight decay of every method; writes results/<dataset>/search.json.

    CERP_DATA_DIR=... python benchmarks/search.py [--dataset gowalla] [--device cuda]
        [--methods ud,qr] [--backbones lightgcn] [--collect]

The grid of `cerp tune` for each method and backbone: validation NDCG@10 after 15
epochs of training, the test part withheld. A method is searched at 99%, or at
90% where it can do no more; those whose rows are shared or narrow, and so get
gradients of quite another size at 90%, at both. The best settings go to
src/cerp/paper/searched.json, which the recipes of `cerp paper` use; those of
full size with LightGCN come from the longer search of `full_size.py`.

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

from cerp.comparison.tune import tune
from cerp.data.splits import Splits
from cerp.paper.searched import best_by_budget

BUDGETS: dict[str, tuple[str, ...]] = {
    "ud": ("99%", "90%"),
    "qr": ("99%", "90%"),
    "pep": ("99%",),
    "hash": ("99%", "90%"),
    "magnitude": ("99%",),
    "dhe": ("90%",),
    "optembed": ("90%",),
    "autoemb": ("90%",),
    "esapn": ("90%",),
    "full": ("99%",),
    "cerp": ("99%",),
}
BACKBONES = ("lightgcn", "mlp")
EPOCHS = 15
UNUSED = {("cerp", "lightgcn"), ("cerp", "mlp")}
"""Searched, for comparison, but compared by their preset: its figures are in choices.json."""
LONGER = ("full", "lightgcn")
FOLDER = Path("runs/search")
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
    parser.add_argument("--methods", default=",".join(BUDGETS))
    parser.add_argument("--backbones", default=",".join(BACKBONES))
    parser.add_argument("--collect", action="store_true")
    given = parser.parse_args()
    folder = FOLDER / given.dataset
    if not given.collect:
        splits = Splits.load(Path(os.environ["CERP_DATA_DIR"]) / given.dataset)
        for asked in questions(given.methods.split(","), given.backbones.split(",")):
            tune(
                splits,
                asked.method,
                backbone=asked.backbone,
                budget=asked.budget,
                epochs=EPOCHS,
                output=folder / asked.name,
                device=given.device,
            )
    collect(folder, given.dataset)


def questions(methods: list[str], backbones: list[str]) -> list[Asked]:
    """What to search for some methods and backbones."""
    return [
        Asked(method, backbone, budget)
        for backbone, method in product(backbones, methods)
        for budget in BUDGETS[method]
    ]


def collect(folder: Path, dataset: str) -> None:
    """Write all trials of the searches that are done, and the best settings."""
    everything = questions(list(BUDGETS), list(BACKBONES))
    paths = {asked: folder / asked.name / "best.json" for asked in everything}
    done = {asked: read(path) for asked, path in paths.items() if path.exists()}
    best: dict[str, dict[str, Any]] = {backbone: {} for backbone in BACKBONES}
    for backbone, method in product(BACKBONES, BUDGETS):
        mine = [done.get(asked) for asked in questions([method], [backbone])]
        found = [search for search in mine if search is not None]
        if len(found) == len(mine) and (method, backbone) not in UNUSED:
            best[backbone][method] = best_by_budget(found)
            if (method, backbone) == LONGER:
                best[backbone][method] |= longer_search(dataset, best[backbone][method])
            for budget, settings in best[backbone][method].items():
                print(f"{method:10} {backbone:9} {budget:4} {settings}")
    missing = [asked.name for asked in everything if asked not in done]
    figures = {"searches": list(done.values()), "missing": missing, "best": best}
    write_figures(RESULTS / dataset / "search.json", figures)
    write_figures(SEARCHED, read(SEARCHED) | {dataset: best})


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
