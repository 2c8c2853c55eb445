"""Parts of a search on all cores, each part on one of them; needs torch.

Torch and NumPy's BLAS have a pool of threads each, and those of one wait for work by spinning while
the other computes: k-means that alternates between the two takes three to five times the core
seconds of a single thread, and no less time. So both compute on one thread here, and the parts are
shared out among threads of our own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

import torch

Found = TypeVar("Found")

_threads: ContextVar[int] = ContextVar("threads that torch had before it was put on one", default=0)


def on_all_cores(work: Callable[[slice], Found], parts: Sequence[slice]) -> list[Found]:
    """What the work gives for each part; parts are worked on at the same time, in torch's threads.

    One after the other where NumPy's BLAS cannot be told to stay on one thread: it then has all
    cores, and torch has one.
    """
    threads = min(_threads.get() or torch.get_num_threads(), len(parts))
    if threads < 2:
        return [work(part) for part in parts]
    with torch_on_one_thread(), blas_on_one_thread() as is_alone:
        if not is_alone:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, parts))


@contextlib.contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """In this thread, and in those that begin meanwhile; `on_all_cores` has as many as before.

    For work of many small steps: threads would wait for each other at the end of each.
    """
    before = torch.get_num_threads()
    token = _threads.set(_threads.get() or before)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _threads.reset(token)


@contextlib.contextmanager
def blas_on_one_thread() -> Iterator[bool]:
    """Whether each of NumPy's products now is computed by the thread that asks for it."""
    libraries = blas_libraries()
    if libraries is None:
        yield False
        return
    with libraries.limit(limits=1):
        yield True


@cache
def blas_libraries() -> Any:
    """What NumPy multiplies with, in threadpoolctl's hands; None where either is not there."""
    try:
        from threadpoolctl import ThreadpoolController
    except ModuleNotFoundError:
        return None
    found = ThreadpoolController().select(user_api="blas")
    return found if found.lib_controllers else None
