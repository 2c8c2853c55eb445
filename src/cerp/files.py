"""Files are written whole or not at all: under a temporary name, then renamed."""

from __future__ import annotations

import errno
import glob
import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
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
    with replacing(path) as scratch:
        scratch.write_bytes(payload)


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write JSON for programs and eyes."""
    write_text(path, json.dumps(value, indent=1) + "\n")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch file to write, which takes the place of ``path`` when all went well.

    A link stays, and what it points to is replaced; who may read the older file may
    read the new one, and nobody else. What is no file, such as ``/dev/stdout``, is written to.
    """
    refuse_unwritable(path)
    with errors_named(path):
        target = Path(os.path.realpath(path))
        if path.exists() and not (target.is_file() and target.samefile(path)):
            with tempfile.TemporaryDirectory(prefix="cerp-") as folder:
                scratch = Path(folder) / path.name
                scratch.touch()
                yield scratch
                with scratch.open("rb") as written, path.open("wb") as file:
                    shutil.copyfileobj(written, file)
            return
        with scratch_beside(target) as scratch:
            if target.exists():
                scratch.chmod(stat.S_IMODE(target.stat().st_mode))
            yield scratch
            to_disk(scratch)
            scratch.replace(target)
            to_disk(target.parent)


@contextmanager
def scratch_beside(path: Path, *, is_folder: bool = False) -> Iterator[Path]:
    """A new file, or folder, beside ``path``, of this writer alone; removed if it is still there.

    It is called ``.NAME.XXXXXXXX.writing``. Those that killed writers of ``path``
    left behind are removed first, once they are old enough to be told from those in use.
    """
    sweep(path.parent, (glob.escape(path.name),), ABANDONED_SECONDS)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.writing")
    if is_folder:
        scratch.mkdir()
    else:
        scratch.touch(exist_ok=False)
    try:
        yield scratch
    finally:
        _remove(scratch)


def sweep(folder: Path, names: Iterable[str], seconds: float = 0.0) -> None:
    """Remove what killed writers left of files, or folders, with such names (as in a shell).

    Only what nobody has written to for so many seconds. Without a wait, whoever calls must be
    the only writer.
    """
    token = "[0-9a-f]" * 8
    found: list[Path] = []
    with suppress(OSError):  # a folder that cannot be listed is swept another time
        for name in names:
            found += folder.glob(f".{name}.{token}.writing")
    for left in found:
        with suppress(OSError):  # another writer may be faster
            if time.time() - left.lstat().st_mtime >= seconds:
                _remove(left)


def to_disk(path: Path) -> None:
    """Have the system write a file's bytes, or a folder's names, to disk before going on."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders; its file systems keep a journal of names
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(scratch: Path) -> None:
    with suppress(OSError):
        if scratch.is_dir() and not scratch.is_symlink():
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.unlink()


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    with errors_named(path):
        path.unlink(missing_ok=True)


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
