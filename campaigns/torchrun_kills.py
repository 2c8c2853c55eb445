"""Training by two processes of which one is killed: started again, it ends with the same model.

The first cases are started by torchrun itself: again by hand on one node, and again by the agents
of two 'nodes', which share a port and a folder. The others copy this process, which has loaded
everything, and do as torchrun does: they tell each process who it is, and when one has ended
they end the other. So many more cases fit into a minute.
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
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from campaigns.faults import arm
from campaigns.harness import Campaign
from campaigns.kills import CONFIG, contents, fork, said, work_in
from cerp.config import RunOptions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic

SCRIPT = Path(__file__).parents[1] / "tests" / "training" / "training_process.py"
PRODUCTS = ("*.cerp", "*.safetensors")
TWO = replace(CONFIG, backbone="lightgcn")
PROCESSES = 2
GRACE_SECONDS = 30
"""For the other process to end after it was told to, as torchrun gives it."""


class Kill(NamedTuple):
    """Who is killed: at one of its file operations, or after some time."""

    process: int
    operation: int | None = None
    seconds: float | None = None


def attack(campaign: Campaign) -> None:
    """Each kill is a case."""
    rng = campaign.rng
    with tempfile.TemporaryDirectory() as place:
        _started_by_torchrun(campaign, Path(place), rng)
        splits = synthetic(30, 20, 200).split(seed=0)
        _load_everything(splits)
        whole = Path(place) / "whole" / "out"
        started = time.monotonic()
        ended = _together(splits, whole)
        seconds = time.monotonic() - started
        assert ended == [0, 0], said(whole)
        expected = contents(whole, PRODUCTS)
        counts = [int(_count_file(whole, number).read_text("utf-8")) for number in range(PROCESSES)]
        campaign.figures |= {"by_torchrun": campaign.cases, "operations": counts, "others": 0}
        for number in campaign.rounds():
            folder = Path(place) / f"killed-{number}" / "out"
            kill = _drawn(rng, counts, seconds)
            if _together(splits, folder, kill) == [0, 0]:
                continue  # both were done before
            ended = _together(splits, folder)
            is_equal = ended == [0, 0] and contents(folder, PRODUCTS) == expected
            campaign.check(is_equal, f"{kill}, then {ended}: another model, or {said(folder)}")
            campaign.figures["others"] += 1


def _load_everything(splits: Splits) -> None:
    """Train once here, so that the copies of this process have all modules and caches."""
    from cerp.runs.fit import fit_all

    fit_all(splits, TWO, RunOptions(quiet=True))


def _drawn(rng: Random, counts: list[int], seconds: float) -> Kill:
    process = rng.randrange(PROCESSES)
    if counts[process] and rng.random() < 0.7:
        return Kill(process, operation=rng.randint(1, counts[process]))
    return Kill(process, seconds=rng.uniform(0, seconds))


def _together(splits: Splits, folder: Path, kill: Kill | None = None) -> list[int]:
    """How the processes of one training end."""
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    processes = [
        fork(lambda number=number: _train(splits, folder, number, port, kill))  # type: ignore[misc]
        for number in range(PROCESSES)
    ]
    return _ended(processes, kill)


def _train(splits: Splits, folder: Path, number: int, port: int, kill: Kill | None) -> None:
    from cerp.runs.fit import fit_all
    from cerp.training.distributed import process_group

    os.environ |= {
        **{name: str(number) for name in ("RANK", "LOCAL_RANK")},
        **{name: str(PROCESSES) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")},
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    is_chosen = kill is not None and kill.process == number
    counter = arm(folder, kill.operation if kill and is_chosen else None)

    def trained(out: Path) -> None:
        with process_group("cpu") as device:
            options = RunOptions(device, out, resume=True, checkpoint_seconds=0, quiet=True)
            fit_all(splits, TWO, options)

    work_in(folder, trained)
    _count_file(folder, number).write_text(str(counter.count), encoding="utf-8")


def _ended(processes: list[int], kill: Kill | None) -> list[int]:
    """Wait for all; once one has failed, end the others as torchrun does."""
    ended: dict[int, int] = {}
    started = time.monotonic()
    told = None
    while len(ended) < len(processes):
        for process in set(processes) - set(ended):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                ended[process] = os.waitstatus_to_exitcode(status)
        running = set(processes) - set(ended)
        now = time.monotonic()
        if kill and kill.seconds is not None and now > started + kill.seconds:
            _signal(running & {processes[kill.process]}, signal.SIGKILL)
        if any(ended.values()) and told is None:
            told = now
            _signal(running, signal.SIGTERM)
        if told is not None and now > told + GRACE_SECONDS:
            _signal(running, signal.SIGKILL)
        time.sleep(0.01)
    return [ended[process] for process in processes]


def _signal(processes: set[int], number: signal.Signals) -> None:
    for process in processes:
        os.kill(process, number)


def _count_file(folder: Path, number: int) -> Path:
    return folder.parent / f"count-{number}"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _started_by_torchrun(campaign: Campaign, place: Path, rng: Random) -> None:
    """One case, with the launcher that users have."""
    whole, folder = place / "torchrun-whole", place / "torchrun"
    started = time.monotonic()
    _start(whole).wait()
    seconds = time.monotonic() - started
    if not _killed(folder, rng, seconds):
        return  # both were done before
    _start(folder).wait()
    is_equal = contents(folder, PRODUCTS) == contents(whole, PRODUCTS)
    campaign.check(is_equal, "a training by torchrun ended with another model")
    nodes = place / "nodes"
    _killed_and_restarted(nodes, rng, seconds)
    is_equal = contents(nodes, PRODUCTS) == contents(whole, PRODUCTS)
    campaign.check(is_equal, "a training on two nodes ended with another model")


def _start(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen([*command, str(SCRIPT), str(folder)], stdout=quiet, stderr=quiet)


def _killed_and_restarted(folder: Path, rng: Random, seconds: float) -> None:
    """Kill a worker of one of two nodes, whose agents are left to start both workers again."""
    port = _free_port()
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
    time.sleep(rng.uniform(0.5, 0.9) * seconds)
    workers = [int(found) for found in _children(run.pid)]
    if workers:
        os.kill(rng.choice(workers), signal.SIGKILL)
    return run.wait() != 0


def _children(process: int) -> list[str]:
    path = Path(f"/proc/{process}/task/{process}/children")
    return re.findall(r"\d+", path.read_text(encoding="utf-8")) if path.exists() else []
