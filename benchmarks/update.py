"""What `cerp update` is worth on later rows, beside training anew, and the time of both.

    CERP_DATA_DIR=... python benchmarks/update.py

MovieLens-100K by time: a model of the first 80% takes in the next 10%, without training and with
some epochs of it, and is judged on the last 10%, beside one that is trained anew on 90%. All are
judged on the same rows: those of users and items that the first 90% hold. Writes
results/update.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import RESULTS, machine, write_figures

from cerp.data.datasets import data_dir

TRAIN = ("--budget", "95%", "--refit", "all")
EPOCHS = (0, 3)


def main() -> None:
    """Measure, print and write the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, new, both, later = _parts(folder)
        seconds: dict[str, float] = {}
        _timed(seconds, "train on 80%", "train", first, *TRAIN, "-o", folder / "old")
        _timed(seconds, "train anew on 90%", "train", both, *TRAIN, "-o", folder / "anew")
        models = {"trained anew": next((folder / "anew").glob("model-*.cerp"))}
        for epochs in EPOCHS:
            label = f"updated, {epochs} epochs"
            models[label] = folder / f"updated-{epochs}.cerp"
            options = ("--epochs", epochs, "-o", models[label])
            _timed(seconds, label, "update", folder / "old", new, *options)
        judged = {label: _cerp("evaluate", path, "--data", later, "-k", 10)
                  for label, path in models.items()}  # fmt: skip
    figures = {
        "data": "ml-100k by time: 80% trained on, 10% taken in, 10% judged",
        "ndcg@10": {label: found["ndcg@10"] for label, found in judged.items()},
        "recall@10": {label: found["recall@10"] for label, found in judged.items()},
        "users": {label: found["users"] for label, found in judged.items()},
        "seconds": seconds,
        "machine": machine("numpy", "torch"),
    }
    write_figures(RESULTS / "update.json", figures)
    print(json.dumps(figures, indent=1))


def _timed(seconds: dict[str, float], label: str, *arguments: object) -> None:
    started = time.perf_counter()
    _cerp(*arguments)
    seconds[label] = round(time.perf_counter() - started, 1)


def _cerp(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "cerp.cli", *map(str, arguments), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"cerp {' '.join(map(str, arguments))}\n{result.stderr}")
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def _parts(folder: Path) -> list[Path]:
    lines = (data_dir() / "ml-100k" / "u.data").read_text().splitlines()
    rows = sorted((line.split("\t") for line in lines), key=lambda row: int(row[3]))
    count = len(rows)
    cuts = {"first": (0, 0.8), "new": (0.8, 0.9), "both": (0, 0.9), "later": (0.9, 1)}
    paths = []
    for name, (start, end) in cuts.items():
        chosen = rows[int(start * count) : int(end * count)]
        text = "".join(f"{user},{item}\n" for user, item, *_ in chosen)
        (folder / f"{name}.csv").write_text(f"user,item\n{text}")
        paths.append(folder / f"{name}.csv")
    return paths


if __name__ == "__main__":
    main()
