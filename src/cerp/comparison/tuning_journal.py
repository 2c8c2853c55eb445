"""Optuna's journal on a disk that may have been full: half an entry is dropped before the next.

Every entry is a line. A disk that is full takes the beginning of one; whatever was written after
it would stand in the same line, and nobody could read the journal any more.
"""

from __future__ import annotations

import os
from pathlib import Path

from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

BLOCK = 4096


def journal(path: Path, grace_seconds: int) -> JournalFileBackend:
    """The journal in a file, which is made if need be."""
    return JournalFileBackend(str(path), _WholeLines(path, grace_seconds))


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
