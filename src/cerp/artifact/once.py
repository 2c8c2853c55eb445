"""What several files of one model have in common is coded once.

The order of entities and the interactions are most of a large file, take most of the time, and are
the same in every precision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Code = TypeVar("Code")
Given = npt.NDArray[Any] | int | None


def coded_once(code: Callable[..., Code]) -> Callable[..., Code]:
    """A function of arrays that gives its last result again while they hold the same.

    They are told by their digest, which takes a hundredth of the time of coding them. The result
    must not be written to.
    """
    last: list[tuple[bytes, Code]] = []

    @wraps(code)
    def remembering(*given: Given) -> Code:
        digest = hashlib.sha256()
        for one in given:
            digest.update(_described(one))
            if isinstance(one, np.ndarray):
                digest.update(np.ascontiguousarray(one).data)
        key = digest.digest()
        kept = last[:]  # another thread may replace it
        if kept and kept[0][0] == key:
            return kept[0][1]
        last.clear()  # what is kept makes room before the next is made
        result = code(*given)
        last[:] = [(key, result)]
        return result

    return remembering


def _described(one: Given) -> bytes:
    """What the bytes of an array do not say."""
    shape = (one.dtype.str, one.shape) if isinstance(one, np.ndarray) else one
    return repr(shape).encode("ascii")
