"""ALS against students without a graph, at equal bytes of file.

    CERP_DATA_DIR=... python benchmarks/als.py [--data ml-100k ...] [--methods als ...]

On ml-100k, lastfm and ml-1m, in files of 25, 60 and 120 KB without seen items:

- als: vectors of implicit ALS as they are, rank, regularisation, α, iterations and precision by
  validation;
- als-int4: the same with values of four bits;
- student: matrix factorisation with learned codes, taught by ALS (``teacher="als"``);
- student-of-lightgcn: the same, taught by LightGCN, which takes long on a CPU;
- mf: learned codes from the training graph, without a teacher.

Choices are made on validation, and test is read once for each model. Writes results/als.json, a
list of rows; those that were not asked for stay.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from machine import RESULTS, machine, write_figures

import cerp
from cerp.data.splits import Splits
from cerp.errors import BudgetError

DATA_SETS = ("ml-100k", "lastfm", "ml-1m")
LIMITS = ("25KB", "60KB", "120KB")
METHODS: dict[str, dict[str, Any]] = {
    "als": {"method": "als"},
    "als-int4": {"method": "als", "values": "int4"},
    "student": {"backbone": "mf", "teacher": "als"},
    "student-of-lightgcn": {"backbone": "mf", "teacher": "lightgcn"},
    "mf": {"backbone": "mf"},
}
RESULT = RESULTS / "als.json"


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", choices=DATA_SETS, default=DATA_SETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["als", "als-int4"])
    parser.add_argument("--limits", nargs="+", default=LIMITS)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for name in asked.data:
        splits = cerp.load_splits(name)
        for method in asked.methods:
            for limit in asked.limits:
                row = {"method": method, "dataset": name, "limit": limit, "seed": asked.seed}
                keep(row | figures(splits, METHODS[method], limit, asked.seed))


def figures(splits: Splits, settings: dict[str, Any], limit: str, seed: int) -> dict[str, Any]:
    """What the best file of so many bytes has."""
    clock, used = time.perf_counter(), time.process_time()
    try:
        model = cerp.fit(
            splits, max_file_size=limit, seen=False, seed=seed, verbose=False, **settings
        )
    except BudgetError as error:
        return {"file_bytes": None, "why_not": str(error)}
    facts = model.facts
    return {
        "file_bytes": facts.file_bytes,
        "values": facts.values,
        "codebooks": facts.codebooks,
        "search": facts.search,
        "valid_ndcg10": round(facts.metrics["valid"]["ndcg@10"], 5),
        "ndcg10": round(facts.metrics["test"]["ndcg@10"], 5),
        "seconds": round(time.perf_counter() - clock, 1),
        "processor_seconds": round(time.process_time() - used, 1),
        "machine": machine("numpy", "torch", "implicit"),
    }


def keep(row: dict[str, Any]) -> None:
    """Put a row in the place of the one that is there for the same."""
    print(json.dumps(row), flush=True)
    rows = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else []
    key = ("method", "dataset", "limit", "seed")
    others = [one for one in rows if any(one[name] != row[name] for name in key)]
    write_figures(RESULT, sorted([*others, row], key=lambda one: [str(one[name]) for name in key]))


if __name__ == "__main__":
    main()
