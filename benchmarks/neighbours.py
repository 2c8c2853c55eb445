"""What item-only files of weights between items are worth, by their real bytes.

    CERP_DATA_DIR=... python benchmarks/neighbours.py [--data ml-1m ...]

For each data set and file size: the model that validation chose, the bytes of its file, and
what the file has on test, which is read once, at the end. On ml-100k also an item-only file of
MF's vectors, and one of the same vectors with users. Writes results/neighbours.json,
where data sets that were not asked for keep their figures; fails where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

# Seconds of one core. Read when NumPy is loaded.
os.environ["OMP_NUM_THREADS"] = "1"

from machine import RESULTS, machine, write_figures

import cerp
from cerp.artifact import decode, section_bytes
from cerp.data.splits import Splits
from cerp.evaluation.baselines import Popularity
from cerp.runtime import Runtime

SIZES = {"ml-1m": ("25KB", "75KB"), "lastfm": ("25KB", "75KB"), "ml-100k": ("25KB", "75KB")}
VECTORS_OF = "ml-100k"
VECTORS: dict[str, Any] = {
    "method": "full",
    "backbone": "mf",
    "dim": 32,
    "values": "int8",
    "epochs": 30,
    "learning_rate": 5e-3,
}
"""What an item-only file of vectors is measured with."""
BARS = {("ml-1m", "75KB"): 0.315}
"""Test NDCG@10."""
RESULT = RESULTS / "neighbours.json"


def main() -> None:
    """Measure, print and write the figures; fail when a bar is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", choices=SIZES, default=list(SIZES))
    asked = parser.parse_args()
    figures = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    missed = []
    for name in asked.data:
        splits = cerp.load_splits(name)
        found: dict[str, Any] = {
            "popularity": on_test(Popularity(splits.train), splits),
            "sizes": {
                size: file_figures(splits, method="neighbours", max_file_size=size)
                for size in SIZES[name]
            },
            "machine": machine("numpy", "scipy"),
        }
        if name == VECTORS_OF:
            found["mf"] = {
                key: file_figures(splits, **VECTORS, item_only=alone)
                for key, alone in (("item_only", True), ("with_users", False))
            }
        missed += [
            f"{name} at {size}: {one['test']['ndcg@10']} is below {BARS[name, size]}"
            for size, one in found["sizes"].items()
            if one["test"]["ndcg@10"] < BARS.get((name, size), 0)
        ]
        figures[name] = found
        print(json.dumps({name: found}, indent=1), flush=True)
        write_figures(RESULT, figures)
    if missed:
        raise SystemExit("; ".join(missed))


def file_figures(splits: Splits, **settings: Any) -> dict[str, Any]:
    """The file of some settings, judged as it was read back."""
    started, used = time.perf_counter(), time.process_time()
    model = cerp.fit(splits, **settings)
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    data = model.file()
    search = model.facts.search or {}
    return {
        "file_bytes": len(data),
        "sections": section_bytes(data),
        "stored": model.facts.nnz,
        **{name: search[name] for name in ("kind", "bits", "regularization") if name in search},
        "valid": {"ndcg@10": round(model.metrics["valid"]["ndcg@10"], 5)},
        "test": on_test(Runtime(decode(data)), splits),
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
    }


def on_test(scorer: Any, splits: Splits) -> dict[str, float]:
    """NDCG@10 and recall@10."""
    means = cerp.evaluate(scorer, splits, ks=(10,)).mean
    return {name: round(means[name], 5) for name in ("ndcg@10", "recall@10")}


if __name__ == "__main__":
    main()
