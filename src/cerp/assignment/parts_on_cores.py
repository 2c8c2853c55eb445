"""Parts of a search on all cores, each part on one of them; needs torch.

Torch and NumPy's BLAS have a pool of threads each, and those of one wait for work by spinning while
the other computes: k-means that alternates between the two takes three to five times the core
seconds of a single thread, and no less time. So both compute on one thread here, and the parts are
shared out among threads of our own.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple, TypeVar

import torch

Found = TypeVar("Found")

OPENBLAS_NAMES = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")
"""What its functions are called in the wheels of NumPy 2, in older ones, and where it is shared."""

VERBS = ("get", "set")

_threads: ContextVar[int] = ContextVar("threads that torch had before it was put on one", default=0)


class OpenBlas(NamedTuple):
    """Functions of the library with which NumPy multiplies."""

    get_num_threads: Callable[[], int]
    set_num_threads: Callable[[int], None]


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
    library = openblas()
    if library is None:
        yield False
        return
    before = library.get_num_threads()
    library.set_num_threads(1)
    try:
        yield True
    finally:
        library.set_num_threads(before)


@cache
def openblas() -> OpenBlas | None:
    """That of NumPy, if it multiplies with OpenBLAS; NumPy itself has no function for threads."""
    try:  # the names of what the module is linked with are found through it
        module = importlib.import_module("numpy._core._multiarray_umath")
        library = ctypes.CDLL(str(module.__file__))
    except (ImportError, OSError):
        return None
    for name in OPENBLAS_NAMES:
        with contextlib.suppress(AttributeError):
            get, put = (getattr(library, name.format(f"{verb}_num_threads")) for verb in VERBS)
            get.argtypes, get.restype = [], ctypes.c_int
            put.argtypes, put.restype = [ctypes.c_int], None
            return OpenBlas(get, put)
    return None
