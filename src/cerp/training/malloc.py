"""Freed memory that stays with the process while it trains on a CPU.

This changes the allocator of the whole process, so it is for processes of cerp's
own, which do nothing else: the command line and the workers of a comparison. Training
that is called from Python leaves the allocator alone.

Every step frees tables of many megabytes, and the next one asks for them again.
glibc hands large freed blocks back to the system, which has to clear each page
anew: in a step of LightGCN on Gowalla these were 17,000 pages and a quarter of
its time.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""glibc's numbers of two settings: free bytes at the end of the heap above which they are handed
back, and the size from which a block gets pages of its own, handed back when it is freed."""
LARGEST_KEPT = 1 << 25
"""Bytes of the largest block that is kept. glibc allows no more, nor would it be wise: the gaps
between larger blocks in the heap took 0.5 GB more where 30 million entities were trained."""
KEPT = {MMAP_THRESHOLD: LARGEST_KEPT, TRIM_THRESHOLD: (1 << 31) - 1}
AS_BEFORE = {MMAP_THRESHOLD: LARGEST_KEPT, TRIM_THRESHOLD: 2 * LARGEST_KEPT}
"""Where glibc's own adjustment ends, once a block of that size was freed; after a setting was made
by hand it adjusts nothing any more."""


@contextmanager
def freed_memory_kept(device: str = "cpu") -> Iterator[None]:
    """Large blocks that are freed inside are used again; afterwards they are handed back.

    Does nothing for training on a GPU, nor where the C library is not glibc.
    """
    library = _glibc() if device == "cpu" else None
    if library is None:
        yield
        return
    _set(library, KEPT)
    try:
        yield
    finally:
        _set(library, AS_BEFORE)
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """The C library of this process, if it has the settings."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def _set(library: ctypes.CDLL, settings: dict[int, int]) -> None:
    for setting, value in settings.items():
        library.mallopt(setting, value)
