"""The server of an app, with all of its bounds."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from threadpoolctl import threadpool_limits

from cerp.server.connections import MAX_CONNECTIONS, Connections
from cerp.server.log_limit import limit_logs

GRACE_SECONDS = 30
"""How long requests in flight may take to finish after the server was told to stop."""
BACKLOG = 128
"""Connections that are taken at a time."""
SWITCH_SECONDS = 0.00005
OWN_FILES = 64
"""Open files that are no connections."""


def make_server(
    app: FastAPI, connections: Connections | None = None, **settings: Any
) -> uvicorn.Server:
    """A uvicorn server that slow, many or malformed requests do not take down."""
    limit_logs()
    # The event loop gives the interpreter's lock away whenever it reads or writes a socket, several
    # times for each request, and waits so long to get it back from a thread that makes lists.
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


def settle() -> None:
    """Get this process ready to do nothing else than serve.

    A list takes one core: on all of them it would leave none to the event loop, and each request
    that waits is another list. All that is there is left out of garbage
    collection, for it stays to the end: a full one looks at every object of the model and of the
    libraries, and nothing else happens for those 35 ms.
    """
    threadpool_limits(1, "blas")
    os.environ["OMP_NUM_THREADS"] = "1"  # which `cerp.cores` obeys
    gc.collect()
    gc.freeze()


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
