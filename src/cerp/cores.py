"""How many threads are worth their while, and work that is shared out among them.

NumPy lets other threads run while it computes, so that a thread for each core is enough.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any, TypeVar

TOLD_BY = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What the libraries that NumPy multiplies with read: whoever sets one has it obeyed here too."""

SPINS = "10000"
"""A tenth of a millisecond: longer than the gap between two steps of a computation."""

Part = TypeVar("Part")
Found = TypeVar("Found")


def available_cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def allowed_threads() -> int:
    """One for each core, or fewer where the environment says so."""
    told = (os.environ.get(name, "") for name in TOLD_BY)
    return min([available_cores(), *(int(text) for text in told if text.isdecimal() and int(text))])


def give_way() -> None:
    """Let torch's threads sleep when they wait for each other for long; before torch is imported.

    Each waits by spinning, at first for milliseconds. On a machine that others use too, whoever is
    waited for has to wait for a core that the other one spins on: a step of LightGCN took up to 40
    times as long, and 14 times the CPU seconds. On a machine of its own steps take as long as ever
    (within 3%).
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def shared_out(
    work: Callable[[Part], Found], parts: Iterable[Part], *, most: int | None = None
) -> list[Found]:
    """What the work gives for each part, in order; the allowed threads take parts one by one.

    The caller is one of them. So it gets done what other callers leave no thread for, and work
    may share out parts of its own. ``most`` is for work in many small steps, between which only
    one thread at a time runs Python: so many threads take part, and no more.
    """
    waiting = list(enumerate(parts))
    threads = min(allowed_threads(), len(waiting), most or len(waiting))
    if threads < 2:
        return [work(part) for _, part in waiting]
    found: list[Any] = [None] * len(waiting)
    left = iter(waiting)

    def take_parts() -> None:
        try:
            for place, part in left:
                found[place] = work(part)
        except BaseException:
            for _ in left:  # no thread begins another part
                pass
            raise

    helpers = [_helpers().submit(take_parts) for _ in range(threads - 1)]
    try:
        take_parts()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        wait(begun)
    for helper in begun:
        helper.result()  # an error in a thread is raised here
    return found


@cache
def _helpers() -> ThreadPoolExecutor:
    """Threads beside the callers', kept because a request is too short to begin some each time."""
    return ThreadPoolExecutor(max(1, available_cores() - 1), thread_name_prefix="cerp-cores")


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_helpers.cache_clear)
