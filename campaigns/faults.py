"""A process whose n-th file operation is its last, or fails: for campaigns that break things.

Python tells an audit hook of every file that it opens, renames, removes, makes or changes;
flushing to disk is counted beside. `arm` counts those below one folder, and at the chosen one
kills the process, raises the error of a full, broken or read-only disk, lets every write fail
that makes a file longer than some bytes (also what C code writes past Python), or sets the clock.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any, Literal, get_args

Fault = Literal["kill", "torn", "full", "broken", "read-only", "short", "clock"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO, "read-only": errno.EROFS}
WATCHED = {
    *("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink"),
    *("os.truncate", "os.chmod", "os.utime", "os.listdir", "os.scandir"),
}
MOST_BYTES = 2000
"""That a file may have on a disk of short files: most of what a small run writes has more."""
FARTHEST_SECONDS = 10 * 365 * 86_400
"""By which a clock is set."""
OPERATIONS_AFTER_CLOCK = 12
"""After which a process whose clock was set is killed at the latest."""


class Counter:
    """Counts the operations below a folder; at one of them something happens."""

    def __init__(self, folder: Path, at: int | None = None, fault: Fault = "kill") -> None:
        self.folder, self.at, self.fault = str(folder), at, fault
        self.count = 0
        self.dies_at: int | None = None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What Python calls for every event, of which most are others."""
        if event in WATCHED and any(self._is_below(given) for given in arguments[:2]):
            self.step()

    def step(self) -> None:
        """One more operation."""
        self.count += 1
        if self.count == self.dies_at:
            _die()
        if self.count == self.at:
            self._strike()

    def flush(self, descriptor: int) -> None:
        """In place of `os.fsync`."""
        if self._is_below(Path(f"/proc/self/fd/{descriptor}").readlink()):
            self.step()

    def _is_below(self, given: object) -> bool:
        if not isinstance(given, str | bytes | os.PathLike):
            return False
        # Not resolved: that would look at the disk, and so call this hook again.
        return str(Path(os.fsdecode(given)).absolute()).startswith(self.folder)

    def _strike(self) -> None:
        rng = random.Random(self.count)
        if self.fault == "clock":
            self.dies_at = self.count + rng.randint(1, OPERATIONS_AFTER_CLOCK)
            _set_clock(Path(self.folder), rng.uniform(-1, 1) * FARTHEST_SECONDS)
        elif self.fault == "short":
            most = rng.randrange(MOST_BYTES)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        elif self.fault in ERRORS:
            number = ERRORS[self.fault]
            raise OSError(number, os.strerror(number), self.folder)
        else:
            if self.fault == "torn":
                self._tear()
            _die()

    def _tear(self) -> None:
        """Cut what is being written in half, as a machine that loses its power may."""
        for scratch in Path(self.folder).rglob(".*.writing"):
            if scratch.is_file():
                os.truncate(scratch, scratch.stat().st_size // 2)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _set_clock(folder: Path, seconds: float) -> None:
    """Another time of day from here on; what is there was written at another time, too."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(1e9 * seconds)
    for path in folder.rglob("*"):
        written = path.lstat().st_mtime - seconds
        os.utime(path, (written, written), follow_symlinks=False)


def long_files_again() -> None:
    """Take the bound on files back: what follows is the campaign's own."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


_ARMED: list[Counter] = []


def armed() -> Counter:
    """What counts in this process."""
    return _ARMED[-1]


def arm(folder: Path, at: int | None = None, fault: Fault = "kill") -> Counter:
    """Count from here on, in this process, until it ends: a hook cannot be taken back."""
    counter = Counter(folder.resolve(), at, fault)
    sys.addaudithook(counter)
    _ARMED.append(counter)
    flush = os.fsync

    def counted(descriptor: int) -> None:
        counter.flush(descriptor)
        flush(descriptor)

    os.fsync = counted  # type: ignore[assignment]
    return counter
