"""Many integers sorted in place, on all cores, and counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.cores import allowed_threads, shared_out
from cerp.data.ids import Int64Array

MANY = 1 << 16
"""From so many on a part, threads are worth their while."""
STRETCH = 1 << 16
"""Numbers that are looked at together: they stay in the cache."""
LONG_STRETCH = 1 << 20
"""The same where each stretch costs something: it is small beside all."""


def sort_on_cores(values: Int64Array) -> None:
    """Smaller values go before larger ones, and each core sorts a part: nothing is merged."""
    parts = min(allowed_threads(), len(values) // MANY)
    if parts < 2:
        values.sort()
        return
    cuts = [len(values) * part // parts for part in range(1, parts)]
    values.partition(cuts)
    shared_out(np.ndarray.sort, np.split(values, cuts))


def user_stretches(offsets: Int64Array) -> Iterator[tuple[int, int]]:
    """Users, from one up to another, whose rows together are `STRETCH`; at least one user.

    The rows of user u are those from ``offsets[u]`` up to ``offsets[u + 1]``.
    """
    first, count = 0, len(offsets) - 1
    while first < count:
        fitting = int(np.searchsorted(offsets, offsets[first] + STRETCH, side="right")) - 1
        last = max(fitting, first + 1)
        yield first, last
        first = last


def counts_of(codes: npt.NDArray[Any], count: int) -> Int64Array:
    """How often each of the codes from 0 to ``count - 1`` occurs.

    NumPy counts 64-bit integers, and would make such of all codes at once.
    """
    counts = np.zeros(count, dtype=np.int64)
    step = max(LONG_STRETCH, count)
    for start in range(0, len(codes), step):
        counts += np.bincount(codes[start : start + step], minlength=count)
    return counts
