"""Learned codes to tensors and back: the row of every entity in one codebook.

Bit planes of ``⌈log2 rows⌉`` bits an entity, or those deflated where that is smaller.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from cerp.artifact.bits import pack_planes, packed_size, unpack_planes
from cerp.artifact.deflate import deflate
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Int32Array

CodesCodec = Literal["planes", "deflated"]
CODES_CODECS: tuple[CodesCodec, ...] = get_args(CodesCodec)


def encode_codes(
    codes: Int32Array, rows: int, *, is_random: bool = False
) -> tuple[CodesCodec, Tensors]:
    """The smaller code of row numbers below ``rows``, and its tensor."""
    packed = pack_planes(codes.astype(np.int64), np.full(len(codes), code_width(rows)))
    if not is_random:
        deflated = deflate(packed.tobytes())
        if len(deflated) < len(packed):
            return "deflated", {"codes": deflated}
    return "planes", {"codes": packed}


def decode_codes(
    tensors: TensorReader, codec: CodesCodec, rows: int, num_entities: int
) -> Int32Array:
    """The row numbers that `encode_codes` wrote; the caller checks that there are such rows."""
    width = code_width(rows)
    if codec == "deflated":
        content = tensors.inflate("codes", code_bytes(num_entities, rows))
        packed = np.frombuffer(content, dtype=np.uint8)
    else:
        packed = tensors.array("codes", np.uint8, code_bytes(num_entities, rows))
    if width == 0:
        # Nothing is stored, so nothing is held: many such tables in a header claim no memory.
        return np.broadcast_to(np.int32(0), num_entities)
    widths = np.full(num_entities, width)
    return unpack_planes(packed, widths, what=tensors.name("codes")).astype(np.int32)


def code_width(rows: int) -> int:
    """Bits that tell so many rows apart."""
    return (rows - 1).bit_length()


def code_bytes(num_entities: int, rows: int) -> int:
    """Bytes that the codes of one book take at most."""
    return packed_size(num_entities * code_width(rows))
