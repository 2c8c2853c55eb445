"""Connections under bounds: how many there are, and how long one may keep the server waiting.

uvicorn waits for a request's header, and for a client that does not read, as long as it
takes. Here both have an end, and a full house turns away whoever has waited longest.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 512
HEADER_SECONDS = 10.0
"""From the connection, or the end of the last answer, to the end of the next request's header."""
STALLED_SECONDS = 20.0
"""For which a client may not read a byte of its answer."""
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Length: 0\r\n\r\n"
)
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Connections:
    """The connections of one server that wait for their clients, the longest first."""

    def __init__(
        self,
        limit: int = MAX_CONNECTIONS,
        header_seconds: float = HEADER_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        self.limit, self.header_seconds = limit, header_seconds
        self.stalled_seconds = stalled_seconds
        self.open = 0
        self.waiting: dict[BoundedProtocol, None] = {}

    def protocol(self, **settings: Any) -> BoundedProtocol:
        """What uvicorn calls for every connection."""
        return BoundedProtocol(self, **settings)


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with a time for headers, a time for readers, and a number of connections."""

    def __init__(self, among: Connections, **settings: Any) -> None:
        super().__init__(**settings)
        self.among = among
        self.header_timer: asyncio.TimerHandle | None = None
        self.stalled_timer: asyncio.TimerHandle | None = None
        self.is_counted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, for the one that waits longest if there are too many."""
        super().connection_made(transport)
        self.among.open += 1
        self.is_counted = True
        if self.among.open > self.among.limit:
            longest = next(iter(self.among.waiting), self)
            longest.end(BUSY)
        if self.is_counted:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; with the whole header there, the wait is over."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """The client reads too slowly: from here on it has some time."""
        super().pause_writing()
        self.stalled_timer = self.loop.call_later(self.among.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        if self.stalled_timer is not None:
            self.stalled_timer.cancel()
            self.stalled_timer = None

    def end(self, answer: bytes) -> None:
        """Close the connection, with an answer where a request has begun."""
        has_begun = bool(self.conn.trailing_data[0]) or self.cycle is None
        self._forget()
        if not self.transport.is_closing():
            if has_begun:
                self.transport.write(answer)
            self.transport.close()

    def _watch(self) -> None:
        """Keep the time while no request is being answered."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering or self.transport.is_closing():
            self._stop_waiting()
        elif self.header_timer is None:
            self.header_timer = self.loop.call_later(self.among.header_seconds, self.end, TOO_LATE)
            self.among.waiting[self] = None

    def _stop_waiting(self) -> None:
        self.among.waiting.pop(self, None)
        if self.header_timer is not None:
            self.header_timer.cancel()
            self.header_timer = None

    def _forget(self) -> None:
        self._stop_waiting()
        if self.stalled_timer is not None:
            self.stalled_timer.cancel()
            self.stalled_timer = None
        if self.is_counted:
            self.is_counted = False
            self.among.open -= 1
