"""All tables and figures of the paper on Gowalla, the most valuable cells first; resumable.

    CERP_DATA_DIR=... python benchmarks/tables.py [--device cuda] [--processes 8] [--minutes 180]
        [--without svd,als] [--runs runs/paper] [--output results] [--copy FOLDER] [--estimate]

One command for everything: `cerp paper` of each recipe, in `STAGES`' order. No job is started after
so many minutes; the same command goes on, and what a killed one had finished is in the folder of
runs. With ``--copy`` what a record needs of that folder (results and figures of each user) is
copied after every stage, to be taken over elsewhere by ``cerp paper --merge FOLDER``.
Several processes share a GPU: start NVIDIA's multi-process service first
(``nvidia-cuda-mps-control -d``). ``--without`` leaves methods to another machine, such as those
that need no GPU. ``--estimate`` runs nothing and tells what is left, and the
seconds that such cells took before, several processes at a time.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from cerp.paper.output import record_path
from cerp.paper.planning import Planned, plan, restricted
from cerp.paper.recipe import read_recipe
from cerp.paper.record import Record
from cerp.paper.run import run_recipe

DATASET = "gowalla"
FIRST = (
    *("popularity", "cerp-learned", "cerp", "ud", "pep", "qr", "full", "graphhash", "cce"),
    *("features", "lowrank", "magnitude-best", "magnitude-gradual", "magnitude", "hash", "pca"),
    *("pq", "opq", "rq", "legcf", "filter", "optembed", "autoemb", "esapn", "dhe", "svd"),
    *("neighbours", "als"),
)
"""Methods by what their figures are worth; ties in the recipe's order."""
GUESS = {"lightgcn": 40.0, "mlp": 120.0, None: 300.0}
"""Seconds of a cell that was never run, by backbone."""
POPULARITY = 10.0
OF_FULL = ("magnitude-best", "magnitude-gradual", "pca", "pq", "opq", "rq")
"""Those that train the full table take at least as long as it does."""


class Stage(NamedTuple):
    """A part of a recipe."""

    recipe: str
    backbones: tuple[str, ...] = ()
    budgets: tuple[str, ...] = ()
    is_main: bool = False
    """Only CERP's default preset with its own order of ids, and all others."""


STAGES = (
    Stage("table2", ("lightgcn",), ("99%",), is_main=True),
    Stage("leaderboard"),
    Stage("table2", ("lightgcn",), is_main=True),
    Stage("table2-bytes", ("lightgcn",)),
    Stage("table2", ("lightgcn",)),
    Stage("table3", ("lightgcn",)),
    Stage("table2", ("mlp",), ("99%",), is_main=True),
    Stage("table2"),
    Stage("table2-bytes"),
    Stage("table3"),
    *(Stage(name) for name in ("fig-gamma", "fig-buckets", "fig-threshold", "fig-heatmap")),
    Stage("table1"),
)


def rank(stage: Stage, without: Sequence[str], one: Planned) -> float | None:
    """The place of a job in its stage; None: it belongs to a later one, or is left out."""
    run = one.run
    if run.method in without:
        return None
    if stage.is_main and run.method == "cerp" and (run.preset != "default" or run.settings):
        return None
    return FIRST.index(run.method) if run.method in FIRST else len(FIRST)


def main() -> None:
    """Run the stages for as long as there is time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="auto")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=180.0)
    parser.add_argument("--dataset", default=DATASET)
    parser.add_argument("--without", default="")
    parser.add_argument("--runs", type=Path, default=Path("runs/paper"))
    parser.add_argument("--output", type=Path, default=Path("results"))
    parser.add_argument("--copy", type=Path)
    parser.add_argument("--estimate", action="store_true")
    given = parser.parse_args()
    without = given.without.split(",")
    if given.estimate:
        estimate(given.output, given.dataset, without)
        return
    started = time.monotonic()
    for stage in STAGES:
        left = 60 * given.minutes - (time.monotonic() - started)
        if left <= 0:
            break
        found = run_recipe(
            stage.recipe,
            given.dataset,
            backbones=stage.backbones,
            budgets=stage.budgets,
            time_limit=left,
            processes=given.processes,
            runs=given.runs,
            output=given.output,
            device=given.device,
            verbose=False,
            rank=partial(rank, stage, without),
        )
        passed = time.monotonic() - started
        print(f"{passed:6.0f} s {stage}: {found!r}; failed: {found.failed}", flush=True)
        if given.copy is not None:
            copy_results(given.runs / given.dataset, given.copy / given.dataset)


def copy_results(runs: Path, target: Path) -> None:
    """What another machine needs of the runs to have their figures and intervals."""
    target.mkdir(parents=True, exist_ok=True)
    if (runs / "results.jsonl").exists():
        shutil.copytree(runs / "users", target / "users", dirs_exist_ok=True)
        shutil.copy(runs / "results.jsonl", target / "results.part")
        (target / "results.part").replace(target / "results.jsonl")


def estimate(output: Path, dataset: str, without: Sequence[str]) -> None:
    """What is left, in the order of the stages, and the seconds that such cells took before."""
    done: set[tuple[str, str | None, str | None, int]] = set()
    seconds: dict[tuple[str, str | None], list[float]] = defaultdict(list)
    for name in {stage.recipe for stage in STAGES}:
        path = record_path(output, dataset, read_recipe(name))
        for entry in Record.read(path).found if path.exists() else []:
            result = entry.result
            if result.seconds is not None:
                seconds[entry.run.method, result.backbone].append(result.seconds)
            if not result.is_older:
                done.add((result.method, result.backbone, result.budget, result.seed))
    total = 0.0
    for stage in STAGES:
        planned = restricted(
            plan(read_recipe(stage.recipe), dataset),
            backbones=stage.backbones,
            budgets=stage.budgets,
        )
        cells: dict[str, list[float]] = defaultdict(list)
        for one in sorted(
            (one for one in planned if rank(stage, without, one) is not None),
            key=lambda one: rank(stage, without, one) or 0,
        ):
            method = one.run.method
            alike = "full" if method in OF_FULL else method
            known = seconds.get((method, one.job.backbone)) or seconds.get(
                (alike, one.job.backbone)
            )
            cost = median(known) if known else GUESS[one.job.backbone]
            cost = POPULARITY if method == "popularity" else cost
            for cell in one.job.cells:
                if tuple(cell) not in done:
                    done.add(tuple(cell))
                    cells[one.run.method].append(cost)
        told = ", ".join(f"{name} {len(own)} x {own[0]:.0f} s" for name, own in cells.items())
        total += (own := sum(map(sum, cells.values())))
        print(f"{stage}: {sum(map(len, cells.values()))} cells, {own:.0f} s: {told}")
    print(f"in all {total:.0f} s of single processes")


if __name__ == "__main__":
    main()
