from __future__ import annotations

import numpy as np
import pytest

from cerp.artifact.once import coded_once


def counting():
    """A function of arrays that gives how often it was called, and remembers."""
    calls = []

    @coded_once
    def code(*given):
        calls.append(given)
        return len(calls)

    return code


NUMBERS = np.arange(6, dtype=np.int32)


def test_equal_arrays_are_coded_once():
    code = counting()
    assert [code(NUMBERS, 3), code(NUMBERS.copy(), 3)] == [1, 1]


@pytest.mark.parametrize(
    "other",
    [
        (NUMBERS + 1, 3),
        (NUMBERS.reshape(2, 3), 3),
        (NUMBERS.view(np.uint32), 3),
        (NUMBERS, 4),
        (NUMBERS, None),
        (NUMBERS[::-1], 3),
    ],
)
def test_what_differs_is_coded_anew(other):
    code = counting()
    assert [code(NUMBERS, 3), code(*other), code(*other), code(NUMBERS, 3)] == [1, 2, 2, 3]


def test_an_error_is_not_kept():
    @coded_once
    def refuse(number):
        raise ValueError(f"{number} is refused")

    for _ in range(2):
        with pytest.raises(ValueError, match="3 is refused"):
            refuse(3)
