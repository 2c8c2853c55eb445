"""`cerp serve` under load, by wrk on loopback; writes results/http_load.json.

    apt-get install wrk
    python benchmarks/http_load.py

A model of Gowalla's sizes (29,858 users, 40,981 items, d = 128, MF with random
values: what is in the vectors does not change the time). 16 connections ask
without pause for 10 seconds: /recommend for random users, and /health as the
yardstick of what the HTTP stack alone takes in the same run. wrk and the server
share the machine's cores. Any error fails the benchmark.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from machine import RESULTS, machine, write_figures

from cerp.artifact import Encoding, write
from cerp.artifact.model import ComposedEmbedding, ShippedModel, Table
from cerp.assignment.index import Index
from cerp.data.ids import Ids

NUM_USERS, NUM_ITEMS, DIM = 29_858, 40_981, 128
CONNECTIONS = 16
RESULT = RESULTS / "http_load.json"

WRK_SCRIPT = """
local users = tonumber(os.getenv("CERP_USERS"))
local path = os.getenv("CERP_PATH")
request = function()
  return wrk.format("GET", (path:gsub("USER", tostring(math.random(0, users - 1)))))
end
done = function(summary, latency, requests)
  local e = summary.errors
  print(string.format(
    '{"requests": %d, "seconds": %.3f, "errors": %d, "latency_ms": ' ..
    '{"p50": %.3f, "p90": %.3f, "p99": %.3f, "max": %.3f}}',
    summary.requests, summary.duration / 1e6,
    e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
    latency:percentile(99) / 1e3, latency.max / 1e3))
end
"""


def write_model(path: Path) -> None:
    """An MF model with a full table of random values."""
    entities = NUM_USERS + NUM_ITEMS
    weight = np.random.default_rng(0).standard_normal((entities, DIM), dtype=np.float32)
    model = ShippedModel(
        facts={"made by": "benchmarks/http_load.py"},
        users=Ids.range(NUM_USERS),
        items=Ids.range(NUM_ITEMS),
        head="dot",
        embedding=ComposedEmbedding((Table(Index("identity"), weight),)),
    )
    write(path, model, Encoding(values="fp32"))


@contextmanager
def serving(model: Path) -> Iterator[str]:
    """The address of a running `cerp serve`, which must stop cleanly afterwards."""
    command = [sys.executable, "-m", "cerp.cli", "serve", str(model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        announced = server.stderr.readline()
        address = re.search(r"http://\S+", announced)
        if address is None:
            raise SystemExit(f"the server did not start: {announced}{server.stderr.read()}")
        try:
            yield address.group()
        finally:
            server.send_signal(signal.SIGTERM)
    if server.returncode:
        raise SystemExit(f"the server ended with {server.returncode}")


def load(address: str, path: str, seconds: int, script: Path) -> dict[str, Any]:
    """What wrk measures; USER in the path is replaced by random user ids."""
    done = subprocess.run(
        ["wrk", f"-c{CONNECTIONS}", "-t1", f"-d{seconds}s", "-s", str(script), address],
        env={"CERP_USERS": str(NUM_USERS), "CERP_PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {"requests_per_second": round(figures["requests"] / figures["seconds"]), **figures}


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description="cerp serve under load")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RESULT)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("this benchmark needs wrk: apt-get install wrk")
    paths = {
        "health": "/health",
        "recommend": "/recommend?user=USER&k=10&exclude_seen=false",
    }
    with tempfile.TemporaryDirectory() as folder:
        model, script = Path(folder) / "model.cerp", Path(folder) / "load.lua"
        write_model(model)
        script.write_text(WRK_SCRIPT, encoding="utf-8")
        with serving(model) as address:
            load(address, paths["recommend"], 1, script)  # warm
            found = {
                name: load(address, path, given.seconds, script) for name, path in paths.items()
            }
    figures = {
        **found,
        "recommend_over_health": round(
            found["recommend"]["requests_per_second"] / found["health"]["requests_per_second"], 3
        ),
        "connections": CONNECTIONS,
        "machine": machine("fastapi", "numpy", "uvicorn"),
    }
    print(json.dumps(figures, indent=1))
    if errors := sum(part["errors"] for part in found.values()):
        raise SystemExit(f"{errors} requests failed")
    write_figures(given.output, figures)


if __name__ == "__main__":
    main()
