"""ASGI middleware: JSON goes out compressed where the client takes that."""

from __future__ import annotations

import gzip
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SMALLEST, LARGEST = 1_000, 2**21
"""Bytes: what is smaller gains nothing, what is larger would hold up the event loop."""
LEVEL = 1
"""Lists shrink to a fifth; higher levels take three times as long for a tenth less."""
_TAKES_GZIP = re.compile(r"(^|,)\s*(gzip|\*)\s*(;\s*q=(1(\.0*)?|0?\.\d*[1-9]\d*)\s*)?(,|$)")


class CompressAnswers:
    """gzip for JSON that comes in one piece; files and errors of other layers stay as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and compress what comes back."""
        asked = Headers(scope=scope).get("accept-encoding", "") if scope["type"] == "http" else ""
        if not _TAKES_GZIP.search(asked.lower()):
            await self.app(scope, receive, send)
            return
        start: Message | None = None

        async def compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message  # its headers depend on the body
                return
            if start is not None:
                await send(_headed(start, message))
                start = None
            await send(message)

        await self.app(scope, receive, compressed)


def _headed(start: Message, message: Message) -> Message:
    """The start of the answer; the body is compressed in place where that is worth it."""
    headers = MutableHeaders(scope=start)
    is_json = headers.get("content-type", "").startswith("application/json")
    if is_json:
        headers.add_vary_header("Accept-Encoding")
    body = message.get("body", b"")
    if is_json and not message.get("more_body") and SMALLEST <= len(body) <= LARGEST:
        message["body"] = gzip.compress(body, LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(message["body"]))
    return start
