"""Crowds and slow clients: what is refused, how, and that the others are still answered."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import pytest
import uvicorn

from cerp.artifact import Encoding, encode
from cerp.runtime import Runtime
from cerp.server import endpoints
from cerp.server.app import create_app
from cerp.server.connections import Connections
from cerp.server.log_limit import LimitLog
from cerp.server.pressure import PIECE, LimitWork, ReadBody, SendInPieces
from cerp.server.running import make_server
from cerp.server.work import Work
from small_models import small_model

Result = TypeVar("Result")

SOON = 20.0
"""Seconds after which what should happen at once is taken not to happen."""


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body that came."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def in_a_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """In a thread of its own: tests with a browser leave a running loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


class Exchange:
    """One request to an ASGI app, and what came back."""

    def __init__(self, *pieces: bytes, path: str = "/recommend") -> None:
        self.scope = {"type": "http", "path": path, "method": "POST", "headers": []}
        self.pieces = list(pieces)
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if not self.pieces:
            await asyncio.sleep(3600)  # the rest never comes
        piece = self.pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": piece[-1:] != b"."}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def run(self, app: Callable[..., Awaitable[None]]) -> int:
        await app(self.scope, self.receive, self.send)
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def test_a_body_is_passed_on_when_it_is_whole():
    exchange = Exchange(b"one, ", b"two.")
    assert in_a_loop(exchange.run(ReadBody(answer, limit=9))) == 200
    assert exchange.body == b"one, two."


def test_a_body_that_does_not_arrive_is_given_up():
    app, exchange = ReadBody(answer, limit=9, seconds=0.01), Exchange(b"one")
    assert in_a_loop(exchange.run(app)) == 408
    assert exchange.headers[b"connection"] == b"close"
    assert app.held == 0


def test_a_body_that_is_too_long_is_refused_by_what_arrives():
    app, exchange = ReadBody(answer, limit=8), Exchange(b"one, ", b"two.")
    assert in_a_loop(exchange.run(app)) == 413
    assert app.held == 0


def test_bodies_together_have_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cerp.server.pressure.MAX_HELD_BYTES", 6)
    exchange = Exchange(b"one, ", b"two.")
    assert in_a_loop(exchange.run(ReadBody(answer, limit=9))) == 503
    assert exchange.headers[b"retry-after"] == b"1"


def test_more_requests_than_are_worked_on_are_told_to_come_back():
    release = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] != "/health":
            await release.wait()
        await answer(scope, receive, send)

    async def run() -> list[int]:
        app = LimitWork(slow, Work(), limit=2)
        waiting = [asyncio.create_task(Exchange(b".").run(app)) for _ in range(2)]
        await asyncio.sleep(0)
        refused = Exchange(b".")
        statuses = [await refused.run(app), await Exchange(b".", path="/health").run(app)]
        assert refused.headers[b"retry-after"] == b"1"
        release.set()
        return statuses + [await task for task in waiting] + [await Exchange(b".").run(app)]

    assert in_a_loop(run()) == [503, 200, 200, 200, 200]


def test_a_long_answer_goes_out_in_pieces():
    long = bytes(2 * PIECE) + b"."
    exchange = Exchange(long)
    assert in_a_loop(exchange.run(SendInPieces(answer))) == 200
    assert [len(message.get("body", b"")) for message in exchange.sent] == [0, PIECE, PIECE, 1]
    assert [message.get("more_body") for message in exchange.sent[1:]] == [True, True, False]


def test_an_answer_that_nobody_takes_is_given_up():
    async def run() -> list[dict[str, Any]]:
        exchange = Exchange(bytes(PIECE) + b".")

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                await asyncio.sleep(3600)
            exchange.sent.append(message)

        await SendInPieces(answer, seconds=0.01)(exchange.scope, exchange.receive, send)
        return exchange.sent

    assert [message["type"] for message in in_a_loop(run())] == ["http.response.start"]


def test_a_crowd_does_not_fill_the_log(caplog: pytest.LogCaptureFixture):
    now = [0.0]
    logger = logging.getLogger("test of the limit")
    limit = LimitLog(records=2, seconds=60, clock=lambda: now[0])
    logger.addFilter(limit)
    try:
        for _ in range(5):
            logger.warning("bad %s", "request")
        now[0] = 61.0
        logger.warning("bad %s", "again")
    finally:
        logger.removeFilter(limit)
    assert [record.getMessage() for record in caplog.records] == [
        "bad request",
        "bad request",
        "(3 messages were left out) bad again",
    ]


@contextmanager
def live(connections: Connections) -> Iterator[int]:
    """The port of a server with such bounds."""
    model = small_model()
    app = create_app(Runtime(model), encode(model, Encoding()))
    server: uvicorn.Server = make_server(app, connections, port=0)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def connect(port: int, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=SOON)
    client.sendall(sent)
    return client


def all_of(client: socket.socket) -> bytes:
    """What comes until the server closes."""
    received = b""
    try:
        while piece := client.recv(65_536):
            received += piece
    except ConnectionResetError:  # closed before it had read what was sent
        pass
    return received


HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("sent", [HEALTH, b"G", b""])
def test_a_header_that_does_not_arrive_is_given_up(sent: bytes):
    with live(Connections(header_seconds=0.05)) as port, connect(port, sent) as client:
        assert all_of(client).startswith(b"HTTP/1.1 408 ")


def test_a_header_that_trickles_gets_no_more_time():
    with live(Connections(header_seconds=0.3)) as port, connect(port) as client:
        assert trickled(client, HEALTH + b"X: " + b"y" * 10_000) < 10_000


def trickled(client: socket.socket, sent: bytes) -> int:
    """How many signs the server took, one after the other, before it closed the connection."""
    for number, sign in enumerate(sent):
        try:
            client.sendall(bytes([sign]))
        except OSError:
            return number
        time.sleep(0.005)
    return len(sent)


def test_requests_follow_each_other_on_one_connection():
    with live(Connections(header_seconds=5)) as port, connect(port) as client:
        for _ in range(3):
            client.sendall(HEALTH + b"\r\n")
            received = b""
            while not received.endswith(b'{"status":"ok"}'):
                received += client.recv(65_536)
            assert received.startswith(b"HTTP/1.1 200 ")


def test_a_full_house_turns_away_whoever_waits_longest():
    last = b"Connection: close\r\n\r\n"
    with (
        live(Connections(limit=2)) as port,
        connect(port, b"GET") as first,
        connect(port, b"GET") as second,
    ):
        with connect(port, HEALTH + last) as third:
            assert all_of(third).startswith(b"HTTP/1.1 200 ")
        assert all_of(first)[:13] in (b"HTTP/1.1 503 ", b"")
        second.sendall(HEALTH.removeprefix(b"GET") + last)
        assert all_of(second).startswith(b"HTTP/1.1 200 ")


def test_a_length_in_two_ways_ends_the_connection():
    request = (
        b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )
    with live(Connections()) as port, connect(port, request + HEALTH + b"\r\n") as client:
        received = all_of(client)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1 ") == 1


def test_steps_of_batches_take_turns_with_the_event_loop():
    work = Work()
    steps: list[str] = []

    async def batch(name: str) -> None:
        for number in range(3):
            await work.run_batch(partial(steps.append, f"{name}{number}"))
            steps.append("loop")

    async def both() -> None:
        await asyncio.gather(batch("a"), batch("b"))

    in_a_loop(both())
    assert steps == ["a0", "loop", "b0", "loop", "a1", "loop", "b1", "loop", "a2", "loop",
                     "b2", "loop"]  # fmt: skip


def test_serving_leaves_the_other_cores_alone_and_collects_no_old_garbage():
    told = """
import gc, numpy
from threadpoolctl import threadpool_info
from cerp.cores import allowed_threads
from cerp.server.running import settle
settle()
print({one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"})
print(allowed_threads())
print(gc.get_freeze_count() > 10_000)
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", told], env=environment, capture_output=True)
    assert done.stdout.decode().split() == ["{1}", "1", "True"]


def test_a_batch_is_made_in_bounded_steps(monkeypatch: pytest.MonkeyPatch):
    from fastapi.testclient import TestClient

    asked: list[int] = []

    class Watched(Runtime):
        def recommend_many(self, users: Any, *given: Any, **options: Any) -> Any:
            asked.append(len(users))
            return super().recommend_many(users, *given, **options)

    model = small_model()
    runtime = Watched(model)
    monkeypatch.setattr(endpoints, "STEP", 4 * runtime.multiplications)
    users = runtime.users.values.tolist()[:10]
    with TestClient(create_app(runtime, encode(model, Encoding()))) as client:
        answer = client.post("/recommend", json={"users": users, "k": 3}).json()
    assert asked == [4, 4, 2]
    assert [result["user"] for result in answer["results"]] == users
    assert [[item["id"] for item in result["items"]] for result in answer["results"]] == [
        [item for item, _ in best] for best in Runtime(model).recommend_many(users, 3)
    ]
