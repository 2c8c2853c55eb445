"""Integers of given widths as bit planes.

Plane p holds bit p of every number that is wider than p bits, in order; the
planes follow each other without a gap. So both directions take one pass per
plane over whole arrays, whatever the mix of widths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int64Array
from cerp.errors import MalformedFileError

Bytes = npt.NDArray[np.uint8]


def pack_planes(numbers: Int64Array, widths: npt.NDArray[np.integer[Any]]) -> Bytes:
    """The bit planes of numbers, each below ``2^width``; least significant bits first."""
    planes = [
        (numbers[widths > plane] >> plane & 1).astype(np.uint8)
        for plane in range(int(widths.max(initial=0)))
    ]
    return np.packbits(np.concatenate([np.empty(0, np.uint8), *planes]), bitorder="little")


def unpack_planes(packed: Bytes, widths: npt.NDArray[np.integer[Any]], *, what: str) -> Int64Array:
    """The numbers that `pack_planes` packed; ``what`` names them in an error."""
    num_bits = int(widths.sum(dtype=np.int64))
    if len(packed) != packed_size(num_bits):
        raise MalformedFileError(
            f"{what} has {len(packed):,} bytes, and its {num_bits:,} bits take "
            f"{packed_size(num_bits):,}"
        )
    bits = np.unpackbits(packed, count=num_bits, bitorder="little")
    numbers = np.zeros(len(widths), dtype=np.int64)
    begin = 0
    for plane in range(int(widths.max(initial=0))):
        wider = np.flatnonzero(widths > plane)
        numbers[wider] |= bits[begin : begin + len(wider)].astype(np.int64) << plane
        begin += len(wider)
    return numbers


def packed_size(num_bits: int) -> int:
    """Bytes that so many bits take."""
    return -(-num_bits // 8)
