"""The page's files, read once at start: no request reaches the file system."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from cerp.server.pressure import PIECE

MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class _Shared(Response):
    """Bytes that all answers share: handed over in pieces, each when the one before has left."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        for begin in range(0, len(self.body), PIECE):
            piece = bytes(self.body[begin : begin + PIECE])
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class Document:
    """Bytes with a strong ETag: a browser that has them already gets 304 and no body."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self.content, self.media_type = content, media_type
        self.headers = {
            "ETag": f'"{sha256(content).hexdigest()}"',
            # Keep it, but ask whether it has changed before using it.
            "Cache-Control": "no-cache",
        }

    def respond(self, request: Request) -> Response:
        """The whole, or "not modified"."""
        if self.headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=self.headers)
        return _Shared(self.content, media_type=self.media_type, headers=self.headers)


def page_router() -> APIRouter:
    """``/`` and every file beside it."""
    router = APIRouter(include_in_schema=False)
    for entry in files("cerp.server").joinpath("page").iterdir():
        media_type = MEDIA_TYPES[entry.name.rpartition(".")[2]]
        path = "/" if entry.name == "index.html" else f"/{entry.name}"
        document = Document(entry.read_bytes(), media_type)
        router.add_api_route(path, document.respond, methods=["GET"], response_model=None)
    return router
