"""Workers of a comparison that copy this process instead of starting Python anew.

They cost a fraction of a second instead of two, and inherit the fault that this process is armed
with: it can strike in a worker too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from unittest.mock import patch

from campaigns.faults import armed, long_files_again
from cerp.comparison import running, worker
from cerp.errors import CerpError

GONE_AFTER_SECONDS = 60


@contextmanager
def forked_workers(beside: Path) -> Iterator[None]:
    """Have comparisons of this process use them; what is to be known stands in ``beside``."""

    def start(command: Sequence[str], **settings: Any) -> _Worker:
        return _Worker(Path(command[-1]), settings["stdout"], beside)

    started = SimpleNamespace(Popen=start, PIPE=subprocess.PIPE)
    with patch.multiple(running, LOOK_EVERY_SECONDS=0.02, subprocess=started):
        yield


def wait_for_workers(beside: Path) -> None:
    """Wait until the workers of a process that was killed have seen that, and ended."""
    end = time.monotonic() + GONE_AFTER_SECONDS
    for path in beside.glob("worker-*"):
        process = path.name.removeprefix("worker-")
        while _is_running(process) and time.monotonic() < end:
            time.sleep(0.01)
        path.unlink()


def _is_running(process: str) -> bool:
    try:
        told = Path("/proc", process, "stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return told.rpartition(")")[2].split()[0] != "Z"


class _Worker:
    """What a comparison asks of `subprocess.Popen`."""

    def __init__(self, folder: Path, log: IO[bytes], beside: Path) -> None:
        read, write = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(write)
            os.dup2(read, 0)
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            os.setsid()
            sys.stdin = os.fdopen(0)
            (beside / f"worker-{os.getpid()}").touch()
            _do(folder, beside)
        os.close(read)
        self.stdin = os.fdopen(write, "wb")
        self.code: int | None = None

    def poll(self) -> int | None:
        if self.code is None:
            found, status = os.waitpid(self.process, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if found else None
        return self.code

    def wait(self) -> None:
        while self.poll() is None:
            time.sleep(0.01)


def _do(folder: Path, beside: Path) -> None:
    """The job, and then the end of the process."""
    code = 1
    try:
        worker.main(folder)
        long_files_again()
        (beside / f"count-{os.getpid()}").write_text(str(armed().count), encoding="utf-8")
        code = 0
    except CerpError as problem:
        os.write(2, f"error: {problem}\n".encode())
    except KeyboardInterrupt:
        pass
    except BaseException:
        long_files_again()
        (beside / "raw").write_text(traceback.format_exc()[-600:], encoding="utf-8")
    finally:
        os._exit(code)
