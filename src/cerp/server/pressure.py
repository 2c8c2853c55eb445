"""ASGI middleware that keeps a crowd from taking the server down: bodies, work and answers.

A request is read whole before anything is done for it, in limited time and space; only so
many are worked on at a time, and the others are told to come back; an answer goes out as
fast as its reader takes it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cerp.server.work import Work

BODY_SECONDS = 20.0
"""For all of a body."""
MAX_HELD_BYTES = 64_000_000
"""Bodies of all requests that are being read or answered."""
MAX_IN_WORK = 32
"""Requests that are being answered; 503 for others."""
MAX_BATCHES = 8
"""Of them with many lists each: single ones shall find room beside them."""
ANSWER_SECONDS = 60.0
"""For a client to take an answer that was made for it alone."""
PIECE = 65_536
"""Bytes of an answer that are handed over at once."""
RETRY = {"Retry-After": "1"}
CLOSE = {"Connection": "close"}
"""Of a request that was not read to its end."""
ALWAYS_ANSWERED = ("/health",)
BATCHES = ("POST", "/recommend")
"""Also below the path of a model by name."""


class ReadBody:
    """Read the body first: at most ``limit`` bytes (413), in limited time (408) and space (503).

    Counted by what arrives, not by what was declared.
    """

    def __init__(self, app: ASGIApp, limit: int, seconds: float = BODY_SECONDS) -> None:
        self.app, self.limit, self.seconds = app, limit, seconds
        self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on when all of it is there."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = bytearray()
        try:
            problem = await self._read(receive, body)
            if problem is not None:
                await problem(scope, receive, send)
                return
            await self.app(scope, _replayed(body, receive), send)
        finally:
            self.held -= len(body)

    async def _read(self, receive: Receive, body: bytearray) -> JSONResponse | None:
        """Fill ``body``; what to answer instead where that cannot be done."""
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    piece = message.get("body", b"")
                    if len(body) + len(piece) > self.limit:
                        return refusal(
                            413, f"the body is over {self.limit:,} bytes; send several requests"
                        )
                    if self.held + len(piece) > MAX_HELD_BYTES:
                        return refusal(503, "too many large requests at once; try again soon")
                    body += piece
                    self.held += len(piece)
                    if not message.get("more_body", False):
                        return None
        except TimeoutError:
            return refusal(408, f"the body did not arrive within {self.seconds:g} seconds")


class ClientGone(Exception):
    """The client has left before its request was whole."""


def _replayed(body: bytearray, receive: Receive) -> Receive:
    """A body that was read before, then what comes after it."""
    is_first = True

    async def replay() -> Message:
        nonlocal is_first
        if is_first:
            is_first = False
            return {"type": "http.request", "body": bytes(body), "more_body": False}
        return await receive()

    return replay


class LimitWork:
    """Answer at most ``limit`` requests at a time; 503 with Retry-After for the others.

    A request is in work until its answer is out, so that answers to clients that do not read
    are bounded too. One that comes in pieces (the page's files, the model) is shared by all
    and takes no memory: it is in work until it begins.
    """

    def __init__(
        self, app: ASGIApp, work: Work, limit: int = MAX_IN_WORK, batches: int = MAX_BATCHES
    ) -> None:
        self.app, self.work, self.limit, self.batches = app, work, limit, batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or send it away."""
        if scope["type"] != "http" or scope["path"] in ALWAYS_ANSWERED:
            await self.app(scope, receive, send)
            return
        is_batch = scope["method"] == BATCHES[0] and scope["path"].endswith(BATCHES[1])
        is_full = self.work.requests >= self.limit
        if is_full or (is_batch and self.work.batches >= self.batches):
            busy = JSONResponse({"error": "the server is busy; try again soon"}, 503, RETRY)
            await busy(scope, receive, send)
            return
        self.work.requests += 1
        self.work.batches += is_batch
        is_counted = True

        def leave() -> None:
            nonlocal is_counted
            self.work.requests -= is_counted
            self.work.batches -= is_counted and is_batch
            is_counted = False

        async def watched(message: Message) -> None:
            is_body = message["type"] == "http.response.body"
            if is_body and (message.get("more_body") or len(message.get("body", b"")) <= PIECE):
                leave()
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            leave()


class SendInPieces:
    """Hand an answer over piece by piece, so that no more of it waits than its reader takes."""

    def __init__(self, app: ASGIApp, seconds: float = ANSWER_SECONDS) -> None:
        self.app, self.seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Split bodies; an answer of one client alone has limited time."""

        async def in_pieces(message: Message) -> None:
            body = message.get("body", b"")
            if message["type"] != "http.response.body" or len(body) <= PIECE:
                await send(message)
                return
            try:
                async with asyncio.timeout(self.seconds):
                    await _send_pieces(message, body, send)
            except TimeoutError:
                raise ClientGone from None

        with suppress(ClientGone):  # nobody is there to be told
            await self.app(scope, receive, in_pieces)


async def _send_pieces(message: Message, body: bytes, send: Send) -> None:
    view = memoryview(body)
    for start in range(0, len(body), PIECE):
        is_last = start + PIECE >= len(body)
        piece = bytes(view[start : start + PIECE])
        more = message.get("more_body", False) or not is_last
        await send({**message, "body": piece, "more_body": more})


def refusal(status: int, problem: str) -> JSONResponse:
    """An answer to a request of which something was not read."""
    headers = CLOSE | (RETRY if status == 503 else {})
    return JSONResponse({"error": problem}, status, headers)
