"""What a portfolio saves where its members share the search for the graph filter.

    CERP_DATA_DIR=... python benchmarks/portfolio.py [--data ml-100k lastfm ml-1m] [--runs 3]

The members with a filter that train nothing, one after the other, as `cerp train --max-file-size`
tries them, up to the choice: each searching for itself, and with a folder that they share. Both
ways in turn, in one process; the least CPU time of each counts. Their files must be the same.
Writes results/portfolio.json, where data sets that were not asked for keep their figures.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import RESULTS, machine, write_figures

import cerp
from cerp.config import RunOptions
from cerp.data.splits import Splits
from cerp.portfolio.members import members_of
from cerp.runs.fit import fit_all

SIZES = {"ml-100k": "100KB", "lastfm": "200KB", "ml-1m": "600KB"}
"""The graph and some vectors have room."""
MEMBERS = ["filter", "sharp-filter", "svd-mixture"]
RESULT = RESULTS / "portfolio.json"


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    for name in asked.data:
        found = both_ways(cerp.load_splits(name), SIZES[name], asked.runs)
        found["machine"] = machine("numpy", "scipy", "torch")
        print(json.dumps({name: found}, indent=1), flush=True)
        before = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
        write_figures(RESULT, {**before, name: found})


def both_ways(splits: Splits, size: str, runs: int) -> dict[str, Any]:
    """CPU seconds of all members, each for itself and sharing."""
    seconds: dict[str, list[dict[str, float]]] = {"apart": [], "shared": []}
    files: list[list[bytes]] = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            for way, shared in (("apart", None), ("shared", Path(folder))):
                taken, made = tried(splits, size, shared)
                seconds[way].append(taken)
                files.append(made)
    if any(made != files[0] for made in files):
        raise SystemExit("sharing the search has changed a file")
    least = {way: min(sum(one.values()) for one in of_way) for way, of_way in seconds.items()}
    return {
        "max_file_size": size,
        "least_cpu_seconds": {way: round(one, 1) for way, one in least.items()},
        "shared_over_apart": round(least["shared"] / least["apart"], 3),
        "runs": seconds,
    }


def tried(splits: Splits, size: str, shared: Path | None) -> tuple[dict[str, float], list[bytes]]:
    """CPU seconds of each member, and their files."""
    options = RunOptions(quiet=True, reads_test=False, shared=shared)
    seconds, files = {}, []
    for member in members_of(MEMBERS):
        begun = time.process_time()
        [model] = fit_all(splits, member.config(size, {}), options)
        seconds[member.name] = round(time.process_time() - begun, 2)
        files.append(model.file())
    return seconds, files


if __name__ == "__main__":
    main()
