"""Values in 32, 16, 8 or 4 bits.

int8 and int4 have one scale a per row, in half precision: a stored value w
becomes the integer ``q = clip(round(w / a), −m, m)``, m = 127 or 7, and is read
back as ``a · q``. With w_max the largest |w| of the row, a is ``c · w_max / m``
for the c of 1, 0.95, ..., 0.5 with the smallest squared error: clipping a few
large values can serve the others better.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cerp.artifact.bits import packed_size
from cerp.artifact.model import FloatArray
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Int64Array
from cerp.errors import ConfigError, MalformedFileError

ValuesCodec = Literal["fp32", "fp16", "int8", "int4"]
VALUES_CODECS: tuple[ValuesCodec, ...] = get_args(ValuesCodec)
LARGEST_INTEGER = {"int8": 127, "int4": 7}
CLIP_FACTORS = np.linspace(1, 0.5, 11)
SMALLEST_HALF = 2.0**-24
LARGEST_HALF = 65504
VALUES_AT_ONCE = 2**14
"""Values whose scales are searched together: they stay in cache."""


def encode_values(values: FloatArray, counts: Int64Array, codec: ValuesCodec) -> Tensors:
    """``values`` and, for int8 and int4, ``scales`` of the stored values of all rows.

    ``counts`` says how many there are in each row.
    """
    if not np.isfinite(values).all():
        raise ConfigError("the embedding holds NaN or infinity; the model has diverged")
    if codec == "fp32":
        return {"values": values.astype(np.float32)}
    if codec == "fp16":
        return {"values": to_half(values, "a value of the embedding")}
    largest = LARGEST_INTEGER[codec]
    scales = np.empty(len(counts), dtype=np.float16)
    integers = np.empty(len(values), dtype=np.int8)
    for rows, places in _blocks(counts):
        scales[rows] = _best_scales(values[places], counts[rows], largest)
        spread = np.repeat(scales[rows], counts[rows])
        integers[places] = _integers(values[places], spread, largest)
    stored = integers if codec == "int8" else _pack_halves(integers)
    return {"scales": scales, "values": stored}


def decode_values(tensors: TensorReader, counts: Int64Array, codec: ValuesCodec) -> FloatArray:
    """What `encode_values` wrote, in float32: a product of scale and integer is exact there."""
    count = int(counts.sum())
    if codec in ("fp32", "fp16"):
        dtype = np.float32 if codec == "fp32" else np.float16
        return finite(tensors.array("values", dtype, count), tensors.name("values"))
    scales = finite(tensors.array("scales", np.float16, len(counts)), tensors.name("scales"))
    if (scales < 0).any():
        raise MalformedFileError(f"the tensor {tensors.name('scales')} holds a negative scale")
    if codec == "int8":
        integers = tensors.array("values", np.int8, count)
    else:
        integers = _unpack_halves(tensors.array("values", np.uint8, packed_size(4 * count)), count)
    values = np.repeat(scales, counts)
    values *= integers  # in its place: of large tables there is no room for two
    return values


def values_size(count: int, num_rows: int, codec: ValuesCodec) -> int:
    """Bytes of ``values`` and ``scales`` together."""
    bits = {"fp32": 32, "fp16": 16, "int8": 8, "int4": 4}[codec]
    return packed_size(bits * count) + (2 * num_rows if codec in LARGEST_INTEGER else 0)


def finite(array: npt.NDArray[Any], name: str) -> FloatArray:
    """Floats of a file as float32; NaN and infinity are refused."""
    if not np.isfinite(array).all():
        raise MalformedFileError(f"the tensor {name} holds NaN or infinity")
    return array.astype(np.float32, copy=False)


def to_half(values: npt.NDArray[np.floating[Any]], what: str) -> npt.NDArray[np.float16]:
    """Values in half precision; one that is too large for it is an error."""
    largest = float(np.abs(values).max(initial=0))
    if largest > LARGEST_HALF:
        raise ConfigError(
            f"{what} is as large as {largest:g}, and half precision ends at {LARGEST_HALF:,}; "
            "write the values as fp32"
        )
    return values.astype(np.float16)


def _blocks(counts: Int64Array) -> Iterator[tuple[slice, slice]]:
    """Cut the table between rows: which rows, and where in the list their values are."""
    ends = np.cumsum(counts)
    row = place = 0
    while row < len(counts):
        last = max(row + 1, int(np.searchsorted(ends, place + VALUES_AT_ONCE, side="right")))
        yield slice(row, last), slice(place, int(ends[last - 1]))
        row, place = last, int(ends[last - 1])


def _best_scales(values: FloatArray, counts: Int64Array, largest: int) -> npt.NDArray[np.float16]:
    """The scale of each row that has the smallest squared error; 0 for rows without values."""
    stored = counts > 0
    begins = (np.cumsum(counts) - counts)[stored]
    best = np.zeros(len(counts), dtype=np.float16)
    if not len(begins):
        return best
    widest = np.maximum.reduceat(np.abs(values), begins).astype(np.float64)
    least_error = np.full(len(begins), np.inf)
    chosen = np.zeros(len(begins), dtype=np.float16)
    for factor in CLIP_FACTORS:
        exact = factor * widest / largest
        # A scale that half precision would round to zero is the smallest above it instead.
        exact[(exact > 0) & (exact < SMALLEST_HALF)] = SMALLEST_HALF
        scales = to_half(exact, "the scale of a row")
        spread = np.repeat(scales, counts[stored])
        read_back = spread.astype(np.float64) * _integers(values, spread, largest)
        error = np.add.reduceat((values - read_back) ** 2, begins)
        better = error < least_error
        chosen[better], least_error[better] = scales[better], error[better]
    best[stored] = chosen
    return best


def _integers(
    values: FloatArray, scales: npt.NDArray[np.float16], largest: int
) -> npt.NDArray[np.int8]:
    """``clip(round(w / a), −m, m)``, halves to even; 0 where the scale is 0."""
    scale = scales.astype(np.float64)
    ratio = np.divide(values, scale, out=np.zeros(len(values)), where=scale > 0)
    return np.clip(np.rint(ratio), -largest, largest).astype(np.int8)


def _pack_halves(integers: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
    """Two integers a byte, in two's complement, the first in the low half."""
    halves = np.zeros(2 * packed_size(4 * len(integers)), dtype=np.uint8)
    halves[: len(integers)] = integers.view(np.uint8) & 15
    return halves[::2] | halves[1::2] << np.uint8(4)


def _unpack_halves(packed: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.int8]:
    halves = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)[:count]
    return (halves ^ 8).astype(np.int8) - np.int8(8)
