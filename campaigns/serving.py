"""`cerp serve` in a process of its own, for campaigns that attack it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cerp.artifact import Encoding, write
from cerp.artifact.model import ComposedEmbedding, Seen, ShippedModel, Table
from cerp.assignment.index import Index
from cerp.data.ids import Ids


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int
    process: int
    log: Path

    @property
    def memory(self) -> int:
        """Bytes that it holds in memory now."""
        text = Path(f"/proc/{self.process}/status").read_text(encoding="utf-8")
        return 1024 * int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0])

    @property
    def cpu_seconds(self) -> float:
        """What it has used of the processors so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text(encoding="utf-8").split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(model: Path, log: Path) -> Iterator[Server]:
    """A server of a model, which has to stop cleanly afterwards."""
    command = [sys.executable, "-m", "cerp.cli", "serve", str(model), "--port", "0"]
    with log.open("w") as errors, subprocess.Popen(command, stderr=errors) as server:
        try:
            yield Server(_port(log, server), server.pid, log)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def _port(log: Path, server: subprocess.Popen[bytes]) -> int:
    while True:
        if found := re.search(r"http://\S+:(\d+)", log.read_text(encoding="utf-8")):
            return int(found[1])
        if server.poll() is not None:
            raise RuntimeError(f"the server did not start: {log.read_text(encoding='utf-8')}")


def write_large_model(path: Path, users: int = 20_000, items: int = 40_000, dim: int = 64) -> None:
    """MF with random values and titles; what is in the vectors does not change the time."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((users + items, dim), dtype=np.float32)
    known = np.sort(rng.integers(0, items // 20, (users, 20)) * 20 + np.arange(20), axis=1)
    write(
        path,
        ShippedModel(
            facts={"made by": "campaigns"},
            users=Ids.range(users),
            items=Ids.range(items),
            head="dot",
            embedding=ComposedEmbedding((Table(Index("identity"), weight),)),
            seen=Seen(
                np.arange(users + 1) * 20, np.sort(known, axis=1).reshape(-1).astype(np.int32)
            ),
            titles=[f"The {code:x} of {code * 7919 % 997}" for code in range(items)],
        ),
        Encoding(),
    )
