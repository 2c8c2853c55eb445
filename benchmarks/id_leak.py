"""How much the ids of each shared dataset give away; writes results/id_leak.json.

    CERP_DATA_DIR=... python benchmarks/id_leak.py

No training: see cerp.evaluation.id_leak for the two recommenders.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from machine import RESULTS, write_figures

from cerp.data.splits import Splits
from cerp.evaluation.id_leak import id_leak

DATASETS = ("gowalla", "amazon-beauty", "lastfm", "ml-1m")
RESULT = RESULTS / "id_leak.json"


def main() -> None:
    """Measure every dataset, print and write the figures."""
    data = Path(os.environ["CERP_DATA_DIR"])
    reports = {}
    for name in DATASETS:
        splits = Splits.load(data / name)
        started = time.perf_counter()
        report = id_leak(splits)
        seconds = round(time.perf_counter() - started, 1)
        reports[name] = {"seconds": seconds, **report.summary()}
        print(json.dumps({name: reports[name]}, indent=1))
    write_figures(RESULT, reports)


if __name__ == "__main__":
    main()
