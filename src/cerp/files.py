"""Files are written whole or not at all: under a temporary name, then renamed."""

from __future__ import annotations

import errno
import glob
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cerp.errors import ConfigError, OutputError

FULL_OR_BROKEN = tuple(
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO") if hasattr(errno, name)
)
"""What stops writing in a place that was well chosen. Not every system has all of them."""
ABANDONED_SECONDS = 3600
"""A scratch file to which nothing was written for so long has lost its writer."""


def write_bytes(path: Path, payload: bytes) -> None:
    """Write bytes and flush them to disk; an older file stays until all is there."""
    with replacing(path) as scratch, scratch.open("wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write JSON for programs and eyes."""
    write_text(path, json.dumps(value, indent=1) + "\n")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch file to write, which takes the place of ``path`` when all went well."""
    refuse_unwritable(path)
    with errors_named(path), scratch_beside(path) as scratch:
        yield scratch
        scratch.replace(path)


@contextmanager
def scratch_beside(path: Path) -> Iterator[Path]:
    """A new file beside ``path``, of this writer alone; removed in the end if it is still there.

    It is called ``.NAME.XXXXXXXX.writing``. Those that killed writers of ``path``
    left behind are removed first, once they are old enough to be told from those in use.
    """
    token = "[0-9a-f]" * 8
    for left in path.parent.glob(f".{glob.escape(path.name)}.{token}.writing"):
        with suppress(OSError):  # another writer may be faster
            if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
                left.unlink()
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.writing")
    scratch.touch(exist_ok=False)
    try:
        yield scratch
    finally:
        with suppress(OSError):
            scratch.unlink()


def make_folder(path: Path) -> None:
    """Create a folder, and those above it, unless it is there."""
    with errors_named(path):
        path.mkdir(parents=True, exist_ok=True)


def refuse_unwritable(path: Path) -> None:
    """Refuse a path that no file can have, before work is spent on what goes into it."""
    with errors_named(path):  # looking is an error too, in a folder that may not be entered
        if path.is_dir():
            raise ConfigError(f"cannot write {path}: it is a folder; give the name of a file")
        if not path.parent.is_dir():
            reason = _what_is_in_the_way(path) or (
                f"there is no folder {path.parent}; create it first, or choose another place"
            )
            raise ConfigError(f"cannot write {path}: {reason}")


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """Around writing to ``path``: an `OSError` becomes an error that says what to do next."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL_OR_BROKEN:
            raise OutputError(
                f"cannot write {path}: {error.strerror}; what was there before is intact. "
                "Free some space or choose another place, and try again"
            ) from error
        reason = f"{error.strerror}; choose another place"
        if isinstance(error, FileExistsError | NotADirectoryError):
            reason = _what_is_in_the_way(path) or reason
        raise ConfigError(f"cannot write {path}: {reason}") from error


def _what_is_in_the_way(path: Path) -> str | None:
    """A file where a folder would have to be, if there is one."""
    there = next((part for part in (path, *path.parents) if os.path.lexists(part)), None)
    if there is None or there.is_dir():
        return None
    return f"{there} is not a folder; choose another place"
