"""Stands in for cerp.comparison.worker: it trains nothing, and fails in the ways that it is told.

`python comparison_worker.py FOLDER`. The method of the job says what happens: pep fails with an
error, hash is killed, dhe runs until its input ends and says so, all others have results at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])
DESCRIBED = json.loads((FOLDER / "job.json").read_text())
JOB = DESCRIBED["job"]

if JOB["method"] == "pep":
    sys.exit("Traceback\nerror: the loss is not finite")
if JOB["method"] == "hash":
    os.kill(os.getpid(), signal.SIGKILL)
if JOB["method"] == "dhe":
    (FOLDER / "started").touch()
    os.read(0, 1)
    (FOLDER / "stopped").touch()
    sys.exit(1)
shared = {
    "config": DESCRIBED["config"],
    "fingerprint": (FOLDER.parents[1] / "fingerprint").read_text(),
}
shared |= {"version": "0", "device": "cpu", "ndcg10": 0.5, "recall10": 0.5}
cells = [
    {key: JOB[key] for key in ("method", "backbone", "seed")} | {"budget": budget} | shared
    for budget in JOB["budgets"]
]
(FOLDER / "results.jsonl").write_text("".join(json.dumps(cell) + "\n" for cell in cells))
