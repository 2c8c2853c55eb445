"""The server of an app, with all of its bounds."""

from __future__ import annotations

import sys
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from cerp.server.connections import MAX_CONNECTIONS, Connections
from cerp.server.log_limit import limit_logs

GRACE_SECONDS = 30
"""How long requests in flight may take to finish after the server was told to stop."""
BACKLOG = 128
"""Connections that are taken at a time."""
SWITCH_SECONDS = 0.0005
OWN_FILES = 64
"""Open files that are no connections."""


def make_server(
    app: FastAPI, connections: Connections | None = None, **settings: Any
) -> uvicorn.Server:
    """A uvicorn server that slow, many or malformed requests do not take down."""
    limit_logs()
    # The event loop gives the interpreter's lock away whenever it reads or writes a socket, and
    # waits so long to get it back from a thread that makes lists: 5 ms is too long, each time.
    sys.setswitchinterval(SWITCH_SECONDS)
    among = connections or Connections(limit=_most_connections())
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=cast(Any, among.protocol),
            ws="none",
            backlog=BACKLOG,
            log_level="warning",
            timeout_graceful_shutdown=GRACE_SECONDS,
            **settings,
        )
    )


def _most_connections() -> int:
    """As many as there may be open files, with room for those that are just being closed."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MAX_CONNECTIONS
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, allowed - BACKLOG - OWN_FILES))
