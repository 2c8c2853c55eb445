"""Many integers sorted in place, on all cores; other integers can go along."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from cerp.cores import available_cores
from cerp.data.ids import Int64Array

MANY = 1 << 16
"""From so many on a part, threads are worth their while."""
STRETCH = 1 << 16
"""Numbers that are packed together: they stay in the cache."""


def sort_on_cores(values: Int64Array) -> None:
    """Each core sorts a part, and a stable sort, which looks for runs, merges the parts."""
    parts = min(available_cores(), len(values) // MANY)
    if parts < 2:
        values.sort()
        return
    with ThreadPoolExecutor(parts) as threads:
        list(threads.map(np.ndarray.sort, np.array_split(values, parts)))
    values.sort(kind="stable")


def fits_beside(largest: int, values: Int64Array) -> bool:
    """Whether a key up to this one and the distance of a value from the least fit 63 bits."""
    return largest.bit_length() + _bits(values) <= 63


def sort_with(keys: Int64Array, values: Int64Array) -> Int64Array:
    """Sort keys that are not negative, equal ones by the value beside them; gives those values.

    Each key and its value are packed into one integer, which sorts far faster than an order of
    the rows is found: they have to fit (`fits_beside`).
    """
    least, bits = (int(values.min()) if len(values) else 0), _bits(values)
    for start in range(0, len(keys), STRETCH):
        stretch = keys[start : start + STRETCH]
        stretch <<= bits
        stretch |= values[start : start + STRETCH] - least
    sort_on_cores(keys)
    beside = np.empty(len(keys), np.int64)
    for start in range(0, len(keys), STRETCH):
        stretch, unpacked = keys[start : start + STRETCH], beside[start : start + STRETCH]
        np.bitwise_and(stretch, (1 << bits) - 1, out=unpacked)
        unpacked += least
        stretch >>= bits
    return beside


def _bits(values: Int64Array) -> int:
    """How many the distance of a value from the least of them has at most."""
    return (int(values.max()) - int(values.min())).bit_length() if len(values) else 0
