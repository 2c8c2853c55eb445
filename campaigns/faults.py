"""A process whose n-th file operation is its last, or fails: for campaigns that break things.

Python tells an audit hook of every file that it opens, renames, removes, makes or changes.
`arm` counts those below one folder, and at the chosen one kills the process, or raises the
error of a full, broken or read-only disk. What C code writes past Python is not seen.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from typing import Any, Literal, get_args

Fault = Literal["kill", "torn", "full", "broken", "read-only"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO, "read-only": errno.EROFS}
WATCHED = {
    *("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink"),
    *("os.truncate", "os.chmod", "os.utime", "os.listdir", "os.scandir"),
}


class Counter:
    """Counts the operations below a folder; at one of them something happens."""

    def __init__(self, folder: Path, at: int | None = None, fault: Fault = "kill") -> None:
        self.folder, self.at, self.fault = str(folder), at, fault
        self.count = 0

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What Python calls for every event, of which most are others."""
        if event not in WATCHED or not any(self._is_below(given) for given in arguments[:2]):
            return
        self.count += 1
        if self.count == self.at:
            self._strike()

    def _is_below(self, given: object) -> bool:
        if not isinstance(given, str | bytes | os.PathLike):
            return False
        # Not resolved: that would look at the disk, and so call this hook again.
        return str(Path(os.fsdecode(given)).absolute()).startswith(self.folder)

    def _strike(self) -> None:
        if self.fault == "torn":
            self._tear()
        if self.fault in ("kill", "torn"):
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(ERRORS[self.fault], os.strerror(ERRORS[self.fault]), self.folder)

    def _tear(self) -> None:
        """Cut what is being written in half, as a machine that loses its power may."""
        for scratch in Path(self.folder).rglob(".*.writing"):
            if scratch.is_file():
                os.truncate(scratch, scratch.stat().st_size // 2)


def arm(folder: Path, at: int | None = None, fault: Fault = "kill") -> Counter:
    """Count from here on, in this process, until it ends: a hook cannot be taken back."""
    counter = Counter(folder.resolve(), at, fault)
    sys.addaudithook(counter)
    return counter
