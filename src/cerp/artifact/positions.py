"""Which values of a table are stored, coded as small as the pattern allows.

- ``dense``: all of them; nothing to say.
- ``prefix``: the first ones of every row; their number, row by row.
- ``bitmap``: a bit for every cell, deflated.
- ``gaps``: how many cells are passed over before each stored one, cell by
  cell through the rows. These are column indices in their cheapest form: no
  count per row, and less than a byte each unless the table is very sparse.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from cerp.artifact.bits import packed_size
from cerp.artifact.deflate import deflate
from cerp.artifact.numbers import decode_numbers, encode_numbers
from cerp.artifact.tensors import TensorReader, Tensors, total_bytes
from cerp.data.ids import Int64Array
from cerp.errors import MalformedFileError
from cerp.naming import prefixed

Mask = npt.NDArray[np.bool_]
PositionsCodec = Literal["dense", "prefix", "bitmap", "gaps"]
POSITIONS_CODECS: tuple[PositionsCodec, ...] = get_args(PositionsCodec)


def encode_positions(mask: Mask, *, is_random: bool = False) -> tuple[PositionsCodec, Tensors]:
    """The smallest code of a mask, and its tensors; sooner if the mask was drawn at random."""
    if mask.all():
        return "dense", {}
    lengths = mask.sum(axis=1, dtype=np.int64)
    cells = np.flatnonzero(mask)
    gaps = np.diff(cells, prepend=-1) - 1
    bitmap = np.packbits(mask, bitorder="little").tobytes()
    coded: dict[PositionsCodec, Tensors] = {
        "bitmap": {"bitmap": deflate(bitmap, is_random=is_random)},
        "gaps": prefixed("gaps", encode_numbers(gaps, is_random=is_random)),
    }
    if np.array_equal(mask, np.arange(mask.shape[1]) < lengths[:, None]):
        coded["prefix"] = prefixed("lengths", encode_numbers(lengths, is_random=is_random))
    smallest = min(coded, key=lambda codec: total_bytes(coded[codec]))
    return smallest, coded[smallest]


def decode_positions(
    tensors: TensorReader, codec: PositionsCodec, rows: int, columns: int, stored: int
) -> Int64Array:
    """The stored cells of a table in ascending order, ``row · columns + column``.

    The caller has made sure that there are no more than ``rows · columns``, and
    that the file is large enough for so many cells.
    """
    if codec == "dense":
        cells = np.arange(rows * columns)
    elif codec == "prefix":
        lengths = decode_numbers(tensors.under("lengths"), rows)
        if (lengths > columns).any():
            raise MalformedFileError(f"{tensors.name('lengths')} exceed the number of columns")
        cells = np.flatnonzero(np.arange(columns) < lengths[:, None])
    elif codec == "bitmap":
        packed = tensors.inflate("bitmap", packed_size(rows * columns))
        bits = np.unpackbits(
            np.frombuffer(packed, dtype=np.uint8), count=rows * columns, bitorder="little"
        )
        cells = np.flatnonzero(bits)
    else:
        gaps = decode_numbers(tensors.under("gaps"), stored)
        # In doubles, because hostile gaps can add up to more than 64 bits hold.
        if gaps.sum(dtype=np.float64) > rows * columns:
            raise MalformedFileError(f"{tensors.name('gaps')} lead out of the table")
        cells = np.cumsum(gaps + 1) - 1
    if len(cells) != stored or (stored and cells[-1] >= rows * columns):
        raise MalformedFileError(
            f"{tensors.name(codec)} does not name the {stored:,} stored values of a table"
        )
    return cells
