"""`cerp serve`: a model behind HTTP, with its page."""

from __future__ import annotations

import signal
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from cerp.errors import ConfigError, MissingExtra


def serve(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", show_default=False, help="A .cerp file.")
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")
    ] = 8000,
) -> None:
    """Serve recommendations over HTTP, and a page at / that can also run the model itself.

    Ctrl-C or SIGTERM stops it: requests in flight are finished first.

    \b
    Examples:
      cerp serve model.cerp
      cerp serve model.cerp --port 8080
      curl 'http://127.0.0.1:8000/recommend?user=42&k=5'
    """
    try:
        from cerp.server.app import create_app
        from cerp.server.running import make_server
    except ImportError as error:
        raise MissingExtra("Serving", error.name or "fastapi", "serve") from None
    from cerp.artifact import read_whole
    from cerp.runtime import Runtime

    file, shipped = read_whole(model)
    runtime = Runtime(shipped, file_bytes=len(file))
    with _listen(host, port) as listener:
        address, own_port = listener.getsockname()[:2]
        app = create_app(runtime, file, model.name, hosts=_names(address))
        server = make_server(app)
        typer.echo(f"serving {model.name} at {_url(address, own_port)} (Ctrl-C stops)", err=True)
        if not _is_this_machine_only(address):
            typer.echo(
                f"warning: other machines can reach {address}, and there is no password; put a "
                "reverse proxy with access control in front, or leave out --host",
                err=True,
            )
        # uvicorn raises the signal again after a clean end; here a clean end is success.
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, server.handle_exit)
        server.run(sockets=[listener])


def _is_this_machine_only(address: str) -> bool:
    return ip_address(address.partition("%")[0]).is_loopback


def _names(address: str) -> list[str] | None:
    """What a server that only this machine reaches is called; None: others may have any name."""
    if not _is_this_machine_only(address):
        return None
    return ["localhost", "127.0.0.1", "[::1]", f"[{address}]" if ":" in address else address]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {_url(host, port)}: {error.strerror or error}; "
            "choose another --port or --host"
        ) from error
    # Connections inherit it. asyncio would set it, but not on those of a socket made like this;
    # without it, every second answer waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
