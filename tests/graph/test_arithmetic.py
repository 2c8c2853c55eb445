from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.errors import ConfigError
from cerp.graph.arithmetic import inverse_power, natural_log, nearest_exponent


@given(st.integers(1, 10**7), st.integers(0, 64))
def test_powers_are_those_of_pow(degree: int, multiple: int):
    found = inverse_power(np.array([degree]), multiple / 32)[0]
    assert found == pytest.approx(degree ** -(multiple / 32), rel=1e-14)


def test_powers_are_made_of_square_roots_as_stated():
    # 21/32 = 1/2 + 1/8 + 1/32
    second = math.sqrt(7.0)
    fourth = math.sqrt(second)
    eighth = math.sqrt(fourth)
    sixteenth = math.sqrt(eighth)
    thirty_second = math.sqrt(sixteenth)
    expected = 1 / (second * eighth * thirty_second)
    assert inverse_power(np.array([7]), 21 / 32)[0] == expected


def test_a_degree_of_zero_has_the_power_zero():
    assert inverse_power(np.array([0, 4, 0]), 0.5).tolist() == [0, 0.5, 0]
    assert inverse_power(np.array([0, 4]), 0.0).tolist() == [0, 1]


def test_whole_exponents_multiply():
    assert inverse_power(np.array([3]), 1.0)[0] == 1 / 3
    assert inverse_power(np.array([4]), 1.5)[0] == 1 / 8
    assert inverse_power(np.array([3]), 2.0)[0] == 1 / 9


def test_exponents_are_rounded_to_the_nearest_multiple_and_bounded():
    assert nearest_exponent(0.7) == 22 / 32
    assert nearest_exponent(0.3) == 10 / 32
    with pytest.raises(ConfigError, match=r"between 0 and 2, got 2\.1"):
        nearest_exponent(2.1)
    with pytest.raises(ConfigError, match="multiple of 1/32"):
        inverse_power(np.array([2]), 0.7)


@given(st.floats(1e-300, 1e300))
def test_logarithms_are_those_of_log(value: float):
    found = natural_log(np.array([value]))[0]
    assert found == pytest.approx(math.log(value), rel=1e-14, abs=4e-16)


def test_the_logarithm_is_evaluated_as_stated():
    # 3 = 0.75 * 2^2, and 0.75 is between the root of a half and the root of two
    t = (0.75 - 1) / (0.75 + 1)
    square = t * t
    series = 1 / 19
    for odd in (17, 15, 13, 11, 9, 7, 5, 3, 1):
        series = series * square + 1 / odd
    assert natural_log(np.array([3.0]))[0] == 2 * 0.6931471805599453 + 2 * t * series
