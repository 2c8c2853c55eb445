"""Optuna's journal and locks on a disk that may be full, or break.

Every entry of the journal is a line. A disk that is full takes the beginning of one; whatever was
written after it would stand in the same line, and nobody could read the journal any more: half an
entry is dropped before the next. An error of the disk comes as what it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optuna.storages.journal import (
    JournalFileBackend,
    JournalFileOpenLock,
    JournalFileSymlinkLock,
)

BLOCK = 4096


def journal(path: Path, grace_seconds: int) -> JournalFileBackend:
    """The journal in a file, which is made if need be."""
    return JournalFileBackend(str(path), _WholeLines(path, grace_seconds))


class ClaimLock(JournalFileOpenLock):
    """Holds a search while several things are done that must go together."""

    def release(self) -> None:
        """Give the lock back."""
        with _errors_of_the_disk():
            super().release()


@contextmanager
def _errors_of_the_disk() -> Iterator[None]:
    """For Optuna, whatever goes wrong with giving a lock back means that it was not held."""
    try:
        yield
    except RuntimeError as error:
        reason = error.__context__
        if isinstance(reason, OSError) and not isinstance(reason, FileNotFoundError):
            raise reason from None
        raise


class _WholeLines(JournalFileSymlinkLock):
    """The lock that whoever appends to the journal takes first."""

    def __init__(self, path: Path, grace_seconds: int) -> None:
        super().__init__(str(path), grace_seconds)
        self._path = path

    def acquire(self) -> bool:
        """Wait for the lock, and drop what is left of an entry that was not written to its end."""
        is_held = super().acquire()
        try:
            drop_half_line(self._path)
        except BaseException:
            self.release()
            raise
        return is_held

    def release(self) -> None:
        """Give the lock back."""
        with _errors_of_the_disk():
            super().release()


def drop_half_line(path: Path) -> None:
    """Cut a file after its last line break."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        length = end
        while length:
            begin = max(0, length - BLOCK)
            file.seek(begin)
            found = file.read(length - begin).rfind(b"\n")
            if found >= 0:
                length = begin + found + 1
                break
            length = begin
        if length < end:
            file.truncate(length)
