"""One process at a time works in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cerp.errors import BusyError
from cerp.files import errors_named, make_folder, sweep

LOCK = ".lock"


@contextmanager
def claimed(folder: Path, writes: tuple[str, ...]) -> Iterator[None]:
    """Work alone in a folder, which is made if need be.

    The lock goes when the process does, however it ends. What killed processes left
    half-written of files with the names in ``writes`` (as in a shell) is removed.
    """
    from filelock import FileLock, Timeout  # only who trains has it

    make_folder(folder)
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise BusyError(
            f"another process is at work in {folder}; wait until it ends, or choose another folder"
        ) from None
    except NotImplementedError:
        # A file system without locks, as on some networks: whoever works there has to take care,
        # and what looks half-written may be another's.
        pass
    except OSError:
        with errors_named(folder):
            raise
    else:
        sweep(folder, writes)
    try:
        yield
    finally:
        lock.release()


def is_claimed(folder: Path) -> bool:
    """Whether a process works in a folder now; False where the file system has no locks."""
    from filelock import FileLock, Timeout

    if not (folder / LOCK).exists():
        return False
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    except (NotImplementedError, OSError):
        return False
    lock.release()
    return False
