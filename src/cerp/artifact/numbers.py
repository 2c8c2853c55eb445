"""Lists of non-negative integers, most of them small: counts, gaps, differences of ids.

A number v is cut as a floating-point number is into exponent and mantissa:
with ``x = v + 4`` and ``e = ⌊log2 x⌋ − 2``, its class is ``4e + x div 2^e − 4``
and its e extra bits are ``x mod 2^e``. Classes are bytes whose frequencies
deflate turns to account; the extra bits are close to random and stay as they
are. On the gaps of a graph this is within 1% of the classes' entropy.
"""

from __future__ import annotations

import numpy as np

from cerp.artifact.bits import pack_planes, unpack_planes
from cerp.artifact.deflate import deflate
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Int64Array
from cerp.data.sorting import LONG_STRETCH
from cerp.errors import MalformedFileError

LARGEST_NUMBER = 2**63 - 5
LARGEST_CLASS = 243


def encode_numbers(numbers: Int64Array, *, is_random: bool = False) -> Tensors:
    """``classes`` and ``extra`` of numbers from 0 to `LARGEST_NUMBER`, which may be random."""
    classes = np.empty(len(numbers), dtype=np.uint8)
    for start in range(0, len(numbers), LONG_STRETCH):
        stretch = slice(start, start + LONG_STRETCH)
        classes[stretch] = _classes(numbers[stretch] + 4)
    return {
        "classes": deflate(classes.tobytes(), is_random=is_random),
        "extra": pack_planes(numbers, classes >> 2, added=4),
    }


def _classes(shifted: Int64Array) -> Int64Array:
    width = np.frexp(shifted.astype(np.float64))[1].astype(np.int64) - 3
    width -= shifted >> width < 4  # beyond 2^53 a double may have been rounded up
    return 4 * width + (shifted >> width) - 4


def decode_numbers(tensors: TensorReader, count: int) -> Int64Array:
    """The ``count`` numbers that `encode_numbers` wrote."""
    classes = np.frombuffer(tensors.inflate("classes", count), dtype=np.uint8)
    if classes.max(initial=0) > LARGEST_CLASS:
        raise MalformedFileError(f"{tensors.name('classes')} holds a class above {LARGEST_CLASS}")
    width = classes >> 2
    numbers = unpack_planes(tensors.byte_array("extra"), width, what=tensors.name("extra"))
    for start in range(0, count, LONG_STRETCH):
        stretch = slice(start, start + LONG_STRETCH)
        leading = (4 + (classes[stretch] & 3)).astype(np.int64) << width[stretch].astype(np.int64)
        numbers[stretch] += leading - 4
    return numbers
