"""Powers and logarithms that come out the same to the bit in every language.

IEEE 754 defines ``+ − · /`` and the square root to the last bit; it does not define
``pow`` and ``log``, and NumPy and JavaScript disagree about their last bits. So exponents
are multiples of 1/32, whose powers are products of repeated square roots, and the
logarithm is a series whose terms are counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.errors import ConfigError

DoubleArray = npt.NDArray[np.float64]

ROOTS = 5
UNIT = 2.0**-ROOTS
"""Exponents are multiples of it."""
LARGEST_EXPONENT = 2.0
LOG_2 = 0.6931471805599453
ROOT_HALF = 0.7071067811865476
LOG_TERMS = 9
"""Of the series; its remainder is below 1e-15."""


def nearest_exponent(exponent: float) -> float:
    """The multiple of `UNIT` nearest to an exponent; halves go to the even multiple."""
    if not 0 <= exponent <= LARGEST_EXPONENT:
        raise ConfigError(
            f"an exponent of the filter must be between 0 and {LARGEST_EXPONENT:g}, got {exponent}"
        )
    return float(np.rint(exponent / UNIT) * UNIT)


def inverse_power(degrees: npt.NDArray[np.integer[Any]], exponent: float) -> DoubleArray:
    """``d^-x`` of positive integers, and 0 where the degree is 0.

    With ``x = n / 32``, ``n = Σ bits 2^b``: start from 1; multiply by d as often as n holds
    32; then halve the exponent five times: take the square root of the root before (of d the
    first time), and multiply by it where the next lower bit of n is set; the result is 1
    divided by the product.

    Parameters
    ----------
    degrees
        Integers that are not negative.
    exponent
        A multiple of 1/32 between 0 and 2; see `nearest_exponent`.

    Returns
    -------
    The powers, in float64.

    """
    if nearest_exponent(exponent) != exponent:
        raise ConfigError(f"an exponent must be a multiple of 1/{1 / UNIT:.0f}, got {exponent}")
    multiple = int(exponent / UNIT)
    root = degrees.astype(np.float64)
    product = np.ones_like(root)
    for _ in range(multiple >> ROOTS):
        product *= root
    for bit in reversed(range(ROOTS)):
        root = np.sqrt(root)
        if multiple >> bit & 1:
            product *= root
    return np.divide(1.0, product, out=np.zeros_like(root), where=degrees > 0)


def natural_log(values: DoubleArray) -> DoubleArray:
    """``log x`` of positive normal numbers, within a few units of the last place.

    With ``x = m · 2^e`` and ``√½ <= m < √2``, ``t = (m − 1) / (m + 1)`` and ``s = t²``:
    ``e · log 2 + 2t · (1 + s(1/3 + s(1/5 + ... + s/19)))``, evaluated from the inside.
    """
    mantissa, exponent = np.frexp(values)
    small = mantissa < ROOT_HALF
    mantissa = np.where(small, mantissa * 2, mantissa)
    power = exponent.astype(np.float64) - small
    t = (mantissa - 1) / (mantissa + 1)
    square = t * t
    series = np.full_like(t, 1 / (2 * LOG_TERMS + 1))
    for term in reversed(range(LOG_TERMS)):
        series = series * square + 1 / (2 * term + 1)
    result: DoubleArray = power * LOG_2 + 2 * t * series
    return result
