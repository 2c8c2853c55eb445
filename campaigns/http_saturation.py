"""Greedy and slow clients at once: only 503 refuses them, /health answers soon, memory stays.

Clients ask without pause for batches, lists and searches; others send half a header, trickle a
body, or never read their answer. Somebody asks for /health ten times a second meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from campaigns.harness import Campaign
from campaigns.serving import Server, serving, write_large_model

BATCHES, LISTS, SEARCHES, SLOW = 40, 16, 8, 200
HEALTH_SECONDS = 0.1
LARGEST_HEALTH = 0.1
"""Seconds of the 99th percentile."""
MEMORY_GROWTH = 1.1
ENOUGH_CORES = 0.8
"""Of processor time for each second: with less, others on the machine decide how long it takes."""
SETTLED_AFTER = 120
"""Looks at the memory, one a second."""
LARGEST_LOG = 1_000_000

Client = Callable[[Server, Random, Counter[int]], Awaitable[None]]


def attack(campaign: Campaign) -> None:
    """Every request is a case; a status that is not expected fails, and so do slow /healths."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "large.cerp"
        write_large_model(model)
        with serving(model, Path(folder) / "log") as server:
            asyncio.run(_crowd(campaign, server))
            campaign.figures["health_share_within_100_ms_by_server"] = _by_server(server)
            campaign.figures["log_bytes"] = server.log.stat().st_size
            if server.log.stat().st_size > LARGEST_LOG:
                campaign.fail(f"the log has {server.log.stat().st_size:,} bytes")


def _by_server(server: Server) -> float:
    """The share of /health that took no longer by the server's own clock, from request to answer.

    What is beyond it of the time that a client sees was spent on the way, or waiting for a core.
    """
    _, text = _answer(server.port, _get("/metrics"))
    soon, count = (
        float(re.findall(rf'cerp_request_seconds_{which}endpoint="/health".* (\S+)', text)[0])
        for which in (r'bucket{(?=.*le="0\.1")', "count{")
    )
    return round(soon / count, 4)


async def _crowd(campaign: Campaign, server: Server) -> None:
    rng, statuses = campaign.rng, Counter[int]()
    clients: list[tuple[Client, int]] = [
        (_batches, BATCHES),
        (_lists, LISTS),
        (_searches, SEARCHES),
        *((slow, SLOW // 4) for slow in (_half_header, _trickled_body, _no_reader, _nonsense)),
    ]
    tasks = [
        asyncio.create_task(_again(client, server, Random(rng.random()), statuses))
        for client, count in clients
        for _ in range(count)
    ]
    with ProcessPoolExecutor(1) as beside:  # the crowd must not slow down who looks at the clock
        watching = beside.submit(watch, server, campaign.seconds_left)
        seen = await asyncio.wrap_future(watching)
    for status, count in seen.bad.items():
        campaign.fail(f"{count} of /health were {status}")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    campaign.cases += statuses.total()
    campaign.figures["statuses"] = dict(sorted(statuses.items()))
    for status, count in statuses.items():
        if status >= 500 and status != 503:
            campaign.fail(f"{count} answers were {status}")
    judge(campaign, seen, server.cpu_seconds / (time.monotonic() - campaign.started))


def judge(campaign: Campaign, seen: Watched, share: float) -> None:
    """Latency where the machine gave the server a core, memory where there was time to settle."""
    own, other = (float(np.quantile(waits, 0.99)) for waits in (seen.waits, seen.yardstick))
    # The first minute, or the first half of a short run, is for pools and caches to fill.
    settled = seen.memory[: max(1, min(60, len(seen.memory) // 2))]
    before = max(settled)
    after = max(seen.memory[len(settled) :], default=before)
    campaign.figures |= {
        "health_requests": len(seen.waits),
        "health_p50_ms": round(1000 * float(np.quantile(seen.waits, 0.5)), 1),
        "health_p99_ms": round(1000 * own, 1),
        "yardstick_p99_ms": round(1000 * other, 1),
        "cores_of_the_server": round(share, 2),
        "memory_mb_settled": round(before / 1e6),
        "memory_mb_after": round(after / 1e6),
    }
    # What a server with nothing to do takes meanwhile is the machine's, not the server's.
    if share > ENOUGH_CORES and own > LARGEST_HEALTH + other:
        campaign.fail(f"1 of 100 /health took over {1000 * own:.0f} ms")
    if len(seen.memory) > SETTLED_AFTER and after > MEMORY_GROWTH * before:
        campaign.fail(f"memory grew from {before / 1e6:.0f} to {after / 1e6:.0f} MB")
    starved = None if share > ENOUGH_CORES else f"the server had {share:.2f} of a core"
    too_short = None if len(seen.memory) > SETTLED_AFTER else "the run was too short"
    campaign.figures["verdict"] = verdict = {
        "health": f"{_word(own < LARGEST_HEALTH, starved)}: 99 of 100 /health within "
        f"{1000 * own:.1f} ms (wanted: {1000 * LARGEST_HEALTH:.0f})",
        "memory": f"{_word(after <= MEMORY_GROWTH * before, too_short)}: {before / 1e6:.0f} MB, "
        f"and {after / 1e6:.0f} MB after it settled (wanted: at most {MEMORY_GROWTH:g} times)",
    }
    for text in verdict.values():
        print(f"  {campaign.name}: {text}", flush=True)


def _word(holds: bool, why_not_judged: str | None) -> str:
    """Whether a bar is met, in a word; what holds under worse conditions holds."""
    if holds:
        return "met"
    return f"not judged ({why_not_judged})" if why_not_judged else "MISSED"


class Watched(NamedTuple):
    """What someone saw who looked at the server all the while."""

    waits: list[float]
    """Seconds of each /health."""
    yardstick: list[float]
    """The same of a server that has nothing else to do, on the same machine."""
    memory: list[int]
    """Of the server, about once a second."""
    bad: Counter[int]
    """Statuses of /health that are not 200."""


def watch(server: Server, seconds: float) -> Watched:
    """Ask for /health every now and then."""
    seen = Watched([], [], [server.memory], Counter())
    end = time.monotonic() + seconds
    with _idle_server() as idle_port:
        while time.monotonic() < end:
            _timed(idle_port, seen.yardstick)
            if (status := _timed(server.port, seen.waits)) != 200:
                seen.bad[status] += 1
            if len(seen.waits) % round(1 / HEALTH_SECONDS) == 0:
                seen.memory.append(server.memory)
            time.sleep(HEALTH_SECONDS)
    return seen


def _timed(port: int, waits: list[float]) -> int:
    started = time.monotonic()
    status, _ = _answer(port, _get("/health"))
    waits.append(time.monotonic() - started)
    return status


def _answer(port: int, request: bytes) -> tuple[int, str]:
    """Status, and all that came."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(request)
        received = b""
        while piece := client.recv(2**12):
            received += piece
    return int(received[9:12] or 0), received.decode("utf-8", "replace")


IDLE = """
import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def _idle_server() -> Iterator[int]:
    """The port of a server that answers every request with an error."""
    command = [sys.executable, "-c", IDLE]
    settings: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, **settings) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


async def _again(client: Client, server: Server, rng: Random, statuses: Counter[int]) -> None:
    while True:
        try:
            await client(server, rng, statuses)
        except OSError:
            statuses[0] += 1  # the server has closed the connection
            await asyncio.sleep(0.05)


async def _batches(server: Server, rng: Random, statuses: Counter[int]) -> None:
    body = json.dumps({"users": [rng.randrange(20_000) for _ in range(1000)], "k": 100})
    await _polite(server, _post("/recommend", body.encode()), statuses)


async def _lists(server: Server, rng: Random, statuses: Counter[int]) -> None:
    await _polite(server, _get(f"/recommend?user={rng.randrange(20_000)}"), statuses)


async def _searches(server: Server, rng: Random, statuses: Counter[int]) -> None:
    query = rng.choice(("the", "of%201", "zzzz", "", "f", "%00"))
    await _polite(server, _get(f"/items?query={query}"), statuses)


async def _half_header(server: Server, rng: Random, statuses: Counter[int]) -> None:
    await _held(server, _get("/health")[: rng.randrange(1, 30)], rng)


async def _trickled_body(server: Server, rng: Random, statuses: Counter[int]) -> None:
    await _held(server, _post("/recommend", b"x" * 100_000)[: rng.randrange(200, 2000)], rng)


async def _no_reader(server: Server, rng: Random, statuses: Counter[int]) -> None:
    await _held(server, _get("/model.cerp"), rng)


async def _nonsense(server: Server, rng: Random, statuses: Counter[int]) -> None:
    statuses[await _asked(server, rng.randbytes(40) + b"\r\n\r\n")] += 1
    await asyncio.sleep(1)


async def _held(server: Server, sent: bytes, rng: Random) -> None:
    """Send something, and then wait for the server to lose patience."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**10)
    try:
        writer.write(sent)
        await writer.drain()
        await asyncio.sleep(rng.uniform(1, 30))
    finally:
        writer.transport.abort()


async def _polite(server: Server, request: bytes, statuses: Counter[int]) -> None:
    """Ask, and come back a little later if the server is busy."""
    status = await _asked(server, request)
    statuses[status] += 1
    if status == 503:
        await asyncio.sleep(0.25)


async def _asked(server: Server, request: bytes) -> int:
    """The status of the answer, which is read to its end; 0: there was none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(request)
        await writer.drain()
        answer = await reader.read(16)
        while await reader.read(2**16):
            pass
        return int(answer[9:12]) if answer[:5] == b"HTTP/" else 0
    finally:
        writer.close()


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def _post(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
