"""ASGI middleware around every request: HEAD, who may ask, headers that browsers heed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; object-src 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class AnswerHead:
    """Answer HEAD as GET, headers and all, but without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask for the same with GET, and empty the body of what comes back."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        # A copy: the server goes by its own scope when it checks the length of the body.
        await self.app({**scope, "method": "GET"}, receive, without_body)


class RefuseDoubtful:
    """Refuse requests to another host's name, and those whose length is said in two ways (400).

    A page of elsewhere can have its own name lead to this machine, and then read what is served
    here; the name gives it away. Two lengths are how one request is hidden in another.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None) -> None:
        self.app = app
        self.hosts = None if hosts is None else {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is beyond doubt."""
        if scope["type"] == "http" and (problem := self._problem(Headers(scope=scope))):
            # The connection ends here: what follows on it may be the other half of a trick.
            answer = JSONResponse({"error": problem}, 400, {"Connection": "close"})
            await answer(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _problem(self, headers: Headers) -> str | None:
        if "transfer-encoding" in headers and "content-length" in headers:
            return "give Content-Length or Transfer-Encoding, not both"
        name = re.sub(r":\d*$", "", headers.get("host", "")).lower()
        if self.hosts is not None and name not in self.hosts:
            return f"this server is not called {name!r}; ask for it by its address"
        return None


class AddSecurityHeaders:
    """Only this server's own scripts, styles and data; nothing frames it, nothing is guessed."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the headers to every response."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self.app(scope, receive, with_headers)
