"""A small HTTP server on the loopback interface, to download from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest


class Answer(NamedTuple):
    path: str
    asked_range: str | None
    status: int
    sent: int


class LocalServer(ThreadingHTTPServer):
    """Serves ``files``; what it was asked and what it sent is in ``answers``."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.answers: list[Answer] = []
        self.knows_ranges = True
        self.shift_ranges = 0
        self.break_off_after: list[int] = []
        """Bytes after which the next answers break off."""
        self.fail_with: list[int] = []
        """Status of the next answers."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer

    def do_GET(self) -> None:
        content = self.server.files.get(self.path)
        asked = self.headers.get("Range")
        first = int(asked[len("bytes=") : -1]) if asked and self.server.knows_ranges else 0
        if self.server.fail_with:
            self._answer(asked, self.server.fail_with.pop(0), b"")
        elif content is None:
            self._answer(asked, 404, b"not here")
        elif first >= len(content) > 0:
            self._answer(asked, 416, b"")
        elif first:
            first += self.server.shift_ranges
            whole = f"bytes {first}-{len(content) - 1}/{len(content)}"
            self._answer(asked, 206, content[first:], {"Content-Range": whole})
        else:
            self._answer(asked, 200, content)

    def _answer(
        self, asked: str | None, status: int, body: bytes, headers: dict[str, str] | None = None
    ) -> None:
        breaks = status < 300 and self.server.break_off_after
        sent = body[: self.server.break_off_after.pop(0)] if breaks else body
        self.server.answers.append(Answer(self.path, asked, status, len(sent)))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """A running server, reached without proxy, and retried without waiting."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("cerp.data.download.RETRY_AFTER_SECONDS", (0.0, 0.0))
    with LocalServer() as server, running(server):
        yield server


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[None]:
    """Let a server answer, in a thread of its own, till the end of the block."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
