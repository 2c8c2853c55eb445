"""Fetch a file over HTTP so that a broken-off transfer goes on where it stopped.

Bytes are collected in ``<target>.part``, which survives an interruption and
becomes the target once it is whole. Whether the content is the right one is
for the caller to say: `cerp.data.datasets` checks fingerprints of the content,
which also catches a file that changed on the server between two attempts.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from cerp.errors import ConfigError, DownloadError
from cerp.progress import progress

TIMEOUT_SECONDS = 30.0
"""Without a byte for so long, an attempt has failed."""
RETRY_AFTER_SECONDS = (1.0, 2.0, 4.0)
"""The pause before each further attempt."""
CHUNK_BYTES = 1 << 16

STATUS_TO_RETRY = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
"""Answers after which another attempt may succeed. A missing file stays missing."""


def download(url: str, target: Path) -> None:
    """Save what is at an http(s) address as ``target``, whose folder is created.

    Failures that may pass are tried again. The environment's proxies are used.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"{url}: only http:// and https:// addresses can be downloaded")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    for pause in (*RETRY_AFTER_SECONDS, None):
        try:
            _append_the_rest(url, part)
            break
        except HTTPError as error:
            error.close()
            if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink(missing_ok=True)  # longer than the file, so not its beginning
            if pause is None or error.code not in STATUS_TO_RETRY:
                answer = f"the server answered {error.code} {error.reason}"
                raise DownloadError(f"cannot download {url}: {answer}") from error
        except (URLError, HTTPException, ConnectionError, TimeoutError) as error:
            if pause is None:
                reason = error.reason if isinstance(error, URLError) else error
                raise DownloadError(f"cannot download {url}: {reason}") from error
        time.sleep(pause)
    part.replace(target)


def _append_the_rest(url: str, part: Path) -> None:
    """Add what the part lacks; begin anew where the server can only send everything."""
    have = part.stat().st_size if part.exists() else 0
    asked = request.Request(url, headers={"User-Agent": "cerp"})
    if have:
        asked.add_header("Range", f"bytes={have}-")
    with _opener().open(asked, timeout=TIMEOUT_SECONDS) as response:
        first = have if response.status == HTTPStatus.PARTIAL_CONTENT else 0
        if first and not response.headers.get("Content-Range", "").startswith(f"bytes {first}-"):
            part.unlink()
            raise ConnectionError("the server sent another range than the one asked for")
        missing = response.length  # None where the server does not say
        with (
            part.open("ab" if first else "wb") as file,
            progress(f"download {part.stem}", missing) as bar,
        ):
            while chunk := response.read(CHUNK_BYTES):
                file.write(chunk)
                bar.advance(len(chunk))
            received = file.tell() - first
    if missing is not None and received < missing:
        raise ConnectionError(f"the connection broke off after {received:,} of {missing:,} bytes")


def _opener() -> request.OpenerDirector:
    """An opener for nothing but http and https, so that no redirect leads elsewhere."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPErrorProcessor(),
        request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
