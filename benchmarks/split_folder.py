"""How long a saved split takes to load: arrays of pairs, as `Splits.save` writes, against text.

    python benchmarks/split_folder.py --pairs 2000000

The same seeded split in both forms, loaded in turn in processes of their own; the least CPU time
of each counts, and the peak of memory. Writes results/split_folder.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import RESULTS, machine, peak_memory, write_figures

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import PARTS, Splits

RUNS = 3
PAIRS_PER_USER, USERS_PER_ITEM = 10, 3
ALLOWED_RATIO = 0.1


def saved(folder: Path, pairs: int) -> tuple[Path, Path]:
    """The two folders."""
    rng, users = np.random.default_rng(0), pairs // PAIRS_PER_USER
    items = users // USERS_PER_ITEM
    data = Interactions.from_codes(
        rng.integers(users, size=pairs),
        rng.integers(items, size=pairs),
        users=Ids.range(users),
        items=Ids.range(items),
    )
    arrays, text = folder / "arrays", folder / "text"
    data.split().save(arrays)
    text.mkdir()
    shutil.copy(arrays / "meta.json", text)
    for name in PARTS:
        part = np.load(arrays / f"{name}.npy")
        starts = np.flatnonzero(np.diff(part[:, 0], prepend=-1))
        with (text / f"{name}.txt").open("w") as file:
            for some in np.split(part, starts[1:]):
                file.write(f"{some[0, 0]} {' '.join(map(str, some[:, 1].tolist()))}\n")
    return arrays, text


def main() -> None:
    """Measure, print and write the figures; fail when the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        begun = time.process_time()
        Splits.load(options.load)
        seconds = time.process_time() - begun
        print(json.dumps({"cpu_seconds": round(seconds, 4), "peak_bytes": peak_memory()}))
        return
    runs: dict[str, list[dict[str, float]]] = {"arrays": [], "text": []}
    with tempfile.TemporaryDirectory() as scratch:
        folders = saved(Path(scratch), options.pairs)
        for _ in range(RUNS):
            for folder in folders:
                done = subprocess.run(
                    [sys.executable, __file__, "--load", str(folder)],
                    capture_output=True,
                    check=True,
                )
                runs[folder.name].append(json.loads(done.stdout))
    least = {name: min(run["cpu_seconds"] for run in of_one) for name, of_one in runs.items()}
    ratio = round(least["arrays"] / least["text"], 4)
    figures: dict[str, Any] = {
        "pairs": options.pairs,
        "least_cpu_seconds": least,
        "arrays_over_text": ratio,
        "allowed_ratio": ALLOWED_RATIO,
        "peak_bytes": {
            name: max(run["peak_bytes"] for run in of_one) for name, of_one in runs.items()
        },
        "runs": runs,
        "machine": machine("numpy"),
    }
    print(json.dumps(figures, indent=1))
    write_figures(RESULTS / "split_folder.json", figures)
    if ratio > ALLOWED_RATIO:
        raise SystemExit(f"arrays take {ratio} of the time of text, {ALLOWED_RATIO} is allowed")


if __name__ == "__main__":
    main()
