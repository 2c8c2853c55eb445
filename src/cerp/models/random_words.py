"""`cerp.data.splitmix` for tensors: hashes of 64-bit words, the same on every device.

Words are signed here, because torch has no arithmetic for others; their bits are the same.
"""

from __future__ import annotations

from torch import Tensor

FIRST_FACTOR, SECOND_FACTOR = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64
DIGITS = 53
"""That a float64 holds."""


def mixed(words: Tensor) -> Tensor:
    """SplitMix64's finaliser: a bijection of 64-bit words that scatters close values."""
    words = (words ^ _shifted(words, 30)) * FIRST_FACTOR
    words = (words ^ _shifted(words, 27)) * SECOND_FACTOR
    return words ^ _shifted(words, 31)


def unit(words: Tensor) -> Tensor:
    """Words as numbers from 0 up to 1, by their first 53 bits."""
    return _shifted(words, 64 - DIGITS).double() * 2.0**-DIGITS


def _shifted(words: Tensor, bits: int) -> Tensor:
    """Shifted to the right, with zeros in front."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)
