"""Integers of given widths as bit planes.

Plane p holds bit p of every number that is wider than p bits, in order; the
planes follow each other without a gap. So both directions take one pass per
plane over whole arrays, whatever the mix of widths.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int64Array
from cerp.data.sorting import LONG_STRETCH
from cerp.errors import MalformedFileError

Bytes = npt.NDArray[np.uint8]


def pack_planes(
    numbers: Int64Array, widths: npt.NDArray[np.integer[Any]], *, added: int = 0
) -> Bytes:
    """The bit planes of the lowest ``width`` bits of each number, least significant bits first.

    ``added`` to each number first, in no memory to speak of.
    """
    packed = np.empty(packed_size(int(widths.sum(dtype=np.int64))), dtype=np.uint8)
    filled = 0
    left = np.empty(0, dtype=np.uint8)  # bits that do not make a byte yet
    for plane, part in _planes(widths):
        wider = numbers[part][widths[part] > plane] + added
        bits = np.concatenate([left, (wider >> plane & 1).astype(np.uint8)])
        whole = len(bits) // 8
        packed[filled : filled + whole] = np.packbits(bits[: 8 * whole], bitorder="little")
        filled += whole
        left = bits[8 * whole :]
    packed[filled:] = np.packbits(left, bitorder="little")
    return packed


def unpack_planes(packed: Bytes, widths: npt.NDArray[np.integer[Any]], *, what: str) -> Int64Array:
    """The numbers that `pack_planes` packed; ``what`` names them in an error."""
    num_bits = int(widths.sum(dtype=np.int64))
    if len(packed) != packed_size(num_bits):
        raise MalformedFileError(
            f"{what} has {len(packed):,} bytes, and its {num_bits:,} bits take "
            f"{packed_size(num_bits):,}"
        )
    numbers = np.zeros(len(widths), dtype=np.int64)
    begin = 0
    for plane, part in _planes(widths):
        wider = np.flatnonzero(widths[part] > plane)
        skipped, end = begin % 8, begin + len(wider)
        bits = np.unpackbits(packed[begin // 8 : packed_size(end)], bitorder="little")
        numbers[part][wider] |= bits[skipped : skipped + len(wider)].astype(np.int64) << plane
        begin = end
    return numbers


def _planes(widths: npt.NDArray[np.integer[Any]]) -> Iterator[tuple[int, slice]]:
    """All planes, each a stretch at a time: what is in between takes no memory to speak of."""
    for plane in range(int(widths.max(initial=0))):
        for start in range(0, len(widths), LONG_STRETCH):
            yield plane, slice(start, start + LONG_STRETCH)


def packed_size(num_bits: int) -> int:
    """Bytes that so many bits take."""
    return -(-num_bits // 8)
