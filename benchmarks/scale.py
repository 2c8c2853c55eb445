"""From a folder of Parquet to an answer over HTTP, at 1, 10 and 100% of thirty million entities.

    python benchmarks/scale.py --shares 1 10
    python benchmarks/scale.py --shares 100 --folder big --stages train export serve
    python benchmarks/scale.py --shares 1 10 100 --backbone lightgcn --folder big

At 100% there are 20.98 million users, 9.35 million items (integer ids, long-tailed) and 200
million rows, made by DuckDB from a seed. Every stage is a command of its own: `cerp data info`,
`cerp data split`, `cerp train --backbone mf` (one epoch of pruning and one of training, few users
judged), `cerp export`, and `cerp serve` with one request. Of each, the seconds, the seconds of
CPU and the peak of memory. LightGCN looks at eight neighbours in each step, and its epochs are two
million positives, at every size: what a pass over all takes follows from a step
(`benchmarks/sampled_propagation.py`), and what is left is what grows with the data. What does not
depend on the backbone is taken over from MF where it was not measured again. Writes
results/scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import RESULTS, machine, write_figures

USERS, ITEMS, ROWS = 20_980_000, 9_350_000, 200_000_000
PARTS = 8
JUDGED = "500"
DIMENSION = "32"
TRAINING = {
    "mf": ("--batch-size", "65536"),
    "lightgcn": ("--batch-size", "8192", "--neighbours", "8", "--epoch-size", "2000000"),
}
"""A tree of LightGCN has 33 vectors, so that its batches are smaller, and its epochs short."""
EXPORT: dict[str, tuple[str, ...]] = {
    "mf": (),
    "lightgcn": ("--graph", "tables", "--values", "int4"),
}
"""Serving from its graph, LightGCN's vectors of all are made from it in float64: at 100% that is
more than any part of this may take."""
SETTINGS = {
    "method": "cerp",
    "settings": {
        "assignment": "hash",
        "ordering": "degree",
        "prune": {"negatives": 1},
        "train": {"negatives": 1},
    },
}
"""As `cerp tune` writes them, beside the backbone. One negative for each positive in place of
five: a step with five takes more than twice as long, and as much memory beside the data."""
ALLOWED_BYTES = 12_000_000_000
OF_THE_DATA = ["data info", "data split"]
STAGES = [*OF_THE_DATA, "train", "export", "serve"]
CERP = [sys.executable, "-m", "cerp.cli"]


def main() -> None:
    """Make the data, run the stages, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shares", type=float, nargs="+", default=[1.0, 10.0], metavar="PERCENT")
    parser.add_argument("--folder", type=Path, help="where data and runs stay; otherwise nowhere")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, metavar="STAGE")
    parser.add_argument("--backbone", choices=sorted(TRAINING), default="mf")
    options = parser.parse_args()
    if set(options.stages) != set(STAGES) and options.folder is None:
        raise SystemExit("some stages alone need a --folder in which the earlier ones were done")
    path = RESULTS / "scale.json"
    figures: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    for share in options.shares:
        with tempfile.TemporaryDirectory() as scratch:
            folder = (options.folder or Path(scratch)) / f"{share:g}"
            name = f"{share:g}%" if options.backbone == "mf" else f"{share:g}%, {options.backbone}"
            known = of_the_data(figures, f"{share:g}%") | figures.get(name, {}).get("stages", {})
            for found in measured(folder, share / 100, options.stages, options.backbone):
                # What was measured stays, whatever comes after.
                stages = {**known, **found["stages"]}
                found["stages"] = {stage: stages[stage] for stage in STAGES if stage in stages}
                figures[name] = {**figures.get(name, {}), **found}
                write_figures(path, figures)
    print(json.dumps(figures, indent=1))
    peaks = {
        f"{name}, {stage}": found["peak_bytes"]
        for name, whole in figures.items()
        for stage, found in whole["stages"].items()
    }
    if beyond := [name for name, peak in peaks.items() if peak > ALLOWED_BYTES]:
        raise SystemExit(f"more than {ALLOWED_BYTES:,} bytes: {', '.join(beyond)}")


def of_the_data(figures: dict[str, Any], name: str) -> dict[str, Any]:
    """What MF's run has of the stages that do not depend on a backbone."""
    stages = figures.get(name, {}).get("stages", {})
    return {
        stage: {**stages[stage], "taken_from": name} for stage in OF_THE_DATA if stage in stages
    }


def measured(
    folder: Path, share: float, stages: list[str], backbone: str
) -> Iterator[dict[str, Any]]:
    """The figures of some stages at a share of the full size, again after each."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = {name: round(share * full) for name, full in zip(NAMES, FULL, strict=True)}
    figures: dict[str, Any] = {
        **counts,
        "machine": machine("duckdb", "numpy", "torch"),
        "stages": {},
    }
    begun = time.perf_counter()
    if not (folder / "log").exists():
        make_parquet(folder / "log", **counts)
        figures["data_seconds"] = round(time.perf_counter() - begun, 1)
    figures["data_bytes"] = size_of(folder / "log")
    judged = ("--judge-users", JUDGED)
    settings = folder / "settings.json"
    write_figures(settings, SETTINGS | {"backbone": backbone})
    training = ("--settings", settings, "--budget", "99.9%", "--dim", DIMENSION)
    limits = ("--epochs", "1", "--prune-epochs", "1", *TRAINING[backbone], "--device", "cpu")
    run, model = folder / f"run-{backbone}", folder / f"{backbone}.cerp"
    verbs: dict[str, tuple[str | Path, ...]] = {
        "data info": ("data", "info", folder / "log", *judged),
        "data split": ("data", "split", folder / "log", "-o", folder / "split"),
        "train": ("train", folder / "split", *training, *limits, *judged, "-o", run),
        "export": ("export", run, "-o", model, *EXPORT[backbone]),
    }
    for name, arguments in verbs.items():
        if name in stages:
            figures["stages"][name] = command(*arguments)
            yield figures
    if "serve" in stages:
        figures["stages"]["serve"] = served(model)
        figures["split_bytes"] = size_of(folder / "split")
        figures["file_bytes"] = model.stat().st_size
        yield figures


NAMES, FULL = ("users", "items", "rows"), (USERS, ITEMS, ROWS)


def make_parquet(folder: Path, users: int, items: int, rows: int) -> None:
    """A seeded log: everyone and everything at least once, the rest long-tailed."""
    import duckdb

    folder.mkdir(parents=True)
    connection = duckdb.connect(config={"threads": 2, "memory_limit": "2GB"})
    connection.execute("set preserve_insertion_order = false")
    for part in range(PARTS):
        first, last = part * rows // PARTS, (part + 1) * rows // PARTS
        connection.execute(
            f"""
            copy (
              select
                (case when row < {users} then row
                      else least({users} - 1, floor({users} * pow(a, 1.5))) end)::bigint as user_id,
                (case when row < {items} then row
                      else least({items} - 1, floor({items} * pow(b, 2.0))) end)::bigint as item_id,
                1600000000 + (row * 7919) % 31536000 as timestamp
              from (
                select range as row, (hash(2 * range) >> 11)::double / 9007199254740992 as a,
                       (hash(2 * range + 1) >> 11)::double / 9007199254740992 as b
                from range({first}, {last})
              )
            ) to '{folder / f"part-{part}.parquet"}' (format parquet)
            """
        )
    connection.close()


def command(*arguments: str | Path) -> dict[str, Any]:
    """Run a verb in a process of its own; its seconds and the peak of its memory."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*CERP, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"cerp {' '.join(map(str, arguments))} failed:\n{said}")
    return figures_of(time.perf_counter() - begun, used)


def served(model: Path) -> dict[str, Any]:
    """Start a server, ask it once, and stop it."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [*CERP, "serve", str(model), "--port", "0", "--no-reload"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = None
        while found is None and (line := process.stdout.readline()):
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found is None:
            raise SystemExit("cerp serve did not start")
        seconds = [ask(found[0], user) for user in (0, 1)]
    finally:
        process.terminate()
        process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    first, second = seconds
    return figures_of(first - begun, used) | {"second_request_seconds": round(second - first, 4)}


def ask(address: str, user: int) -> float:
    """Ask for a list of ten; when it was there."""
    with urllib.request.urlopen(f"{address}/recommend?user={user}&k=10") as answer:
        found = json.load(answer)
    if len(found["items"]) != 10:
        raise SystemExit(f"user {user} got {found}")
    return time.perf_counter()


def figures_of(seconds: float, used: resource.struct_rusage) -> dict[str, Any]:
    """What a process took."""
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_bytes": used.ru_maxrss * 1024,
    }


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
