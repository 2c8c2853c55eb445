"""Training by two processes of which one is killed: started again, it ends with the same model.

Started again by hand on one node, or by the agents of two 'nodes', which share a port and a folder.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from campaigns.harness import Campaign

SCRIPT = Path(__file__).parents[1] / "tests" / "training" / "training_process.py"


def attack(campaign: Campaign) -> None:
    """Each kill is a case."""
    rng = campaign.rng
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        started = time.monotonic()
        _start(whole).wait()
        seconds = time.monotonic() - started
        expected = _models(whole)
        for number in campaign.rounds():
            folder = Path(place) / f"killed-{number}"
            if number % 2:
                _killed_and_restarted(folder, rng, seconds)
            elif _killed(folder, rng, seconds):
                _start(folder).wait()
            else:
                continue
            campaign.check(_models(folder) == expected, f"case {number} ended with another model")


def _start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen([*command, str(SCRIPT), str(folder)], stdout=quiet, stderr=quiet)


def _killed_and_restarted(folder: Path, rng: Random, seconds: float) -> None:
    """Kill a worker of one of two nodes, whose agents are left to start both workers again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    command += ["--max-restarts=3", "--rdzv-backend=c10d", "--rdzv-id=campaign"]
    command += [f"--rdzv-endpoint=127.0.0.1:{port}", str(SCRIPT), str(folder)]
    quiet = subprocess.DEVNULL
    agents = [subprocess.Popen(command, stdout=quiet, stderr=quiet) for _ in range(2)]
    time.sleep(rng.uniform(0.3, 1.0) * seconds)
    if workers := _children(rng.choice(agents).pid):
        os.kill(int(workers[0]), signal.SIGKILL)
    for agent in agents:
        agent.wait()


def _killed(folder: Path, rng: Random, seconds: float) -> bool:
    """Whether one of the two could be killed before both were done."""
    run = _start(folder)
    time.sleep(rng.uniform(0.3, 1.0) * seconds)
    workers = [int(found) for found in _children(run.pid)]
    if workers:
        os.kill(rng.choice(workers), signal.SIGKILL)
    return run.wait() != 0


def _children(process: int) -> list[str]:
    path = Path(f"/proc/{process}/task/{process}/children")
    return re.findall(r"\d+", path.read_text(encoding="utf-8")) if path.exists() else []


def _models(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.cerp"))}
