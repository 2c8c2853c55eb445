"""How long a whole run takes, by stages; writes results/run_time.json.

    CERP_DATA_DIR=... python benchmarks/run_time.py [--device cuda] [--dataset gowalla]

Two processes of their own. One does in Python what ``cerp train`` does and takes the time of its
stages: importing, reading, planning (with codes, where they are learned), pruning, training, and
judging and writing. "From loaded data" is all after reading. The other is the command itself,
from its start to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from machine import RESULTS, described, write_figures

RESULT = RESULTS / "run_time.json"
BAR_LOADED, BAR_COMMAND = 10.0, 15.0
"""Seconds, of Gowalla at 99% on an H200."""


def main() -> None:
    """Both processes, one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dataset", default="gowalla")
    parser.add_argument("--budget", default="99%")
    parser.add_argument("--settings", default="{}", help="of the run, as JSON: '{\"epochs\": 5}'")
    parser.add_argument("--stages", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    data = Path(os.environ["CERP_DATA_DIR"]) / options.dataset
    settings: dict[str, Any] = json.loads(options.settings)
    if options.stages:
        print(json.dumps(stages(data, options.device, options.budget, settings)))
        return
    found = {
        "stages": timed_stages(),
        "command_seconds": command(data, options.device, options.budget, settings),
        "bars": {"from_loaded_data": BAR_LOADED, "command": BAR_COMMAND},
        "machine": described(options.device),
    }
    print(json.dumps(found, indent=1))
    results = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    write_figures(RESULT, results | {f"{options.dataset} {options.device}": found})


def timed_stages() -> dict[str, Any]:
    """The stages, in a process that has imported nothing."""
    done = subprocess.run(
        [sys.executable, __file__, *sys.argv[1:], "--stages"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def stages(data: Path, device: str, budget: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Seconds of each stage, and what came out."""
    marks = [("importing", time.perf_counter())]

    def mark(name: str) -> None:
        """What begins now."""
        marks.append((name, time.perf_counter()))

    from cerp.callbacks import Callback
    from cerp.data.splits import Splits
    from cerp.runs.fit import fit

    class Marks(Callback):
        """Stages as the run names them; after each epoch of the last one judging may begin."""

        last_epoch = 0.0

        def on_stage(self, stage: str) -> None:
            mark("pruning" if stage == "prune" else "training")

        def on_epoch(self, stage: str, epoch: float, figures: Mapping[str, float]) -> None:
            self.last_epoch = time.perf_counter()

    mark("reading")
    splits = Splits.load(data)
    mark("planning")
    watching = Marks()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "run"
        model = fit(
            splits,
            budget,
            backbone="lightgcn",
            device=device,
            output=output,
            verbose=False,
            callbacks=[watching],
            **settings,
        )
        marks.append(("judging and writing", watching.last_epoch))
        mark("end")
    seconds = {name: round(after - start, 2) for (name, start), (_, after) in pairwise(marks)}
    loaded = sum(value for name, value in seconds.items() if name not in ("importing", "reading"))
    test = model.facts.metrics.get("test", {})
    return {
        "seconds": seconds,
        "from_loaded_data": round(loaded, 2),
        "ndcg@10": test.get("ndcg@10"),
        "recall@20": test.get("recall@20"),
    }


def command(data: Path, device: str, budget: str, settings: dict[str, Any]) -> float:
    """Seconds of ``cerp train``, from its start to its end."""
    own = [
        part
        for name, value in settings.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        subprocess.run(
            [
                *(sys.executable, "-m", "cerp.cli", "train", str(data)),
                *("--backbone", "lightgcn", "--budget", budget, "--device", device),
                *("-o", str(Path(folder) / "run"), *own),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return round(time.perf_counter() - started, 2)


if __name__ == "__main__":
    main()
