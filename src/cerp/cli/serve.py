"""`cerp serve`: a model behind HTTP, with its page."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from cerp.errors import ConfigError, MissingExtra
from cerp.runtime import Runtime

SECONDS, NEVER = 2.0, 10**8
"""Between two looks at the files that are served."""


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            show_default=False,
            help="A .cerp file; more of them, as NAME=FILE, answer below /models/NAME.",
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; the default is this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")
    ] = 8000,
    cors: Annotated[
        list[str] | None,
        typer.Option(help="Origin of pages elsewhere that may ask; repeatable, * for any."),
    ] = None,
    history: Annotated[
        bool,
        typer.Option("--history/--no-history", help="Whether to tell what users have seen."),
    ] = True,
    download: Annotated[
        bool,
        typer.Option("--download/--no-download", help="Whether to hand out the model file."),
    ] = True,
    docs: Annotated[bool, typer.Option("--docs", help="Describe the interface at /docs.")] = False,
    reload: Annotated[
        bool,
        typer.Option("--reload/--no-reload", help="Whether to look for changed files."),
    ] = True,
) -> None:
    """Serve recommendations over HTTP, and a page at / that can also run the model itself.

    Ctrl-C or SIGTERM stops it: requests in flight are finished first. A file that changes is
    read and checked whole before it takes the place of the one before, and SIGHUP has all files
    read again.

    \b
    Examples:
      cerp serve model.cerp
      cerp serve model.cerp --port 8080
      cerp serve shop=shop.cerp films=films.cerp --cors https://shop.example --no-download
      curl 'http://127.0.0.1:8000/recommend?user=42&k=5'
    """
    try:
        from cerp.server.app import create_app, put_model
        from cerp.server.options import ServeOptions
        from cerp.server.reloading import Watch, WatchedFile
        from cerp.server.running import make_server, settle
    except ImportError as error:
        raise MissingExtra("Serving", error.name or "fastapi", "serve") from None
    from cerp.artifact import read_whole

    options = ServeOptions(tuple(cors or ()), history, download, docs)
    named = _named(models)
    loaded: dict[str, tuple[Runtime, bytes]] = {}
    for label, path in named.items():
        file, shipped = read_whole(path)
        loaded[label] = (Runtime(shipped, file_bytes=len(file)), file)
    first, *others = named
    with _listen(host, port) as listener:
        address, own_port = listener.getsockname()[:2]
        app = create_app(
            *loaded[first],
            named[first].name,
            hosts=_names(address),
            options=options,
            label=first if others else None,
            others={label: loaded[label] for label in others},
        )
        server = make_server(app)
        url = _url(address, own_port)
        typer.echo(f"serving {named[first].name} at {url} (Ctrl-C stops)", err=True)
        for label in named if others else ():
            typer.echo(f"serving {named[label].name} at {url}/models/{label}", err=True)
        if not _is_this_machine_only(address):
            typer.echo(
                f"warning: other machines can reach {address}, and there is no password; put a "
                "reverse proxy with access control in front, or leave out --host",
                err=True,
            )
        # uvicorn raises the signal again after a clean end; here a clean end is success.
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, server.handle_exit)
        files = []
        for label, path in named.items():
            place = app if label == first else app.state.models[label]
            name = path.name if label == first else label
            files.append(WatchedFile(path, partial(_put, put_model, place, name), _tell))
        watch = Watch(files, SECONDS if reload else NEVER)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, lambda *_: watch.wake())
        watch.start()
        settle()
        try:
            server.run(sockets=[listener])
        finally:
            watch.end()


def _put(put: Callable[..., None], app: object, name: str, runtime: Runtime, file: bytes) -> None:
    put(app, runtime, file, name)


def _tell(text: str) -> None:
    typer.echo(text, err=True)


def _named(models: list[str]) -> dict[str, Path]:
    """The files by name: as given, else by what they are called."""
    found: dict[str, Path] = {}
    for given in models:
        label, _, rest = given.partition("=")
        path = Path(rest) if rest and not Path(given).exists() else Path(given)
        label = label if rest and path != Path(given) else path.stem
        if not re.fullmatch(r"[\w.-]+", label):
            raise ConfigError(f"{label!r} cannot be part of an address; name it: films={path}")
        if label in found:
            raise ConfigError(f"two models are called {label!r}; name them: a={path}")
        found[label] = path
    return found


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
