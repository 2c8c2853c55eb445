"""The outer shell: a safetensors file with one metadata entry and a checksum of every byte.

Writing is left to the safetensors library. Reading is done here, because the
library gives bytes back as copies and without their metadata, and because a
file from anywhere deserves an error that says what is wrong with it. The
tensors are views of the data.
"""

from __future__ import annotations

import json
import math
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from cerp.artifact.tensors import Tensors
from cerp.errors import (
    ChecksumError,
    ConfigError,
    FormatVersionError,
    MalformedFileError,
    TruncatedFileError,
)

Buffer = bytes | bytearray | memoryview
FORMAT = 1
PREFIX = 8
"""Bytes before the header: its length."""
LARGEST_HEADER = 2**20
"""A header has a few thousand bytes; this bounds the time and memory to parse a hostile one."""
CHECKSUM_MARK = rb"\"crc32\":\""
"""What stands before the digits: quotes are escaped, for the metadata is JSON inside JSON."""
NO_DIGITS = b"00000000"
DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
}


class Content(NamedTuple):
    """What is in a file."""

    metadata: dict[str, Any]
    tensors: Tensors
    header_bytes: int
    """Everything before the payload."""


DEEPEST = 32
"""Levels of the JSON in a file."""


def pack(metadata: dict[str, Any], tensors: Tensors) -> bytes:
    """The file of tensors and metadata, which must be ready for JSON."""
    described = {**metadata, "format": FORMAT, "crc32": NO_DIGITS.decode()}
    try:
        text = json.dumps(described, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the facts of the model cannot be written as JSON: {error}") from None
    # The library stores what is contiguous in memory.
    file = save({name: np.ascontiguousarray(tensors[name]) for name in tensors}, {"cerp": text})
    header_length = int.from_bytes(file[:PREFIX], "little")
    if header_length > LARGEST_HEADER:
        raise ConfigError(
            f"the header would take {header_length:,} bytes, more than {LARGEST_HEADER:,}; "
            "leave something out of the facts of the model"
        )
    begin = _digits_begin(file[PREFIX : PREFIX + header_length])
    digits = f"{zlib.crc32(file):08x}".encode()
    whole = memoryview(file)  # of which no part is copied but into the result
    return b"".join((whole[:begin], digits, whole[begin + len(digits) :]))


def unpack(data: Buffer) -> Content:
    """What `pack` packed, every structural claim checked."""
    view = memoryview(data)
    header = _header(view)
    payload = view[PREFIX + len(header) :]
    _check_sum(view, header, len(payload))
    entries = _parsed(header)
    metadata = _metadata(entries.pop("__metadata__", None))
    if type(metadata.get("format")) is not int or metadata["format"] != FORMAT:
        raise FormatVersionError(
            f"the format is {metadata.get('format')!r}, and this version of cerp reads {FORMAT}; "
            "upgrade cerp, or export the model again"
        )
    return Content(metadata, _tensors(entries, payload), PREFIX + len(header))


def _header(view: memoryview) -> bytes:
    if len(view) < PREFIX:
        raise TruncatedFileError(
            f"{len(view)} bytes are too few for a .cerp file; copy or download it again"
        )
    length = int.from_bytes(view[:PREFIX], "little")
    if length > LARGEST_HEADER:
        raise MalformedFileError(
            f"it claims a header of {length:,} bytes, which no .cerp file has; is it one?"
        )
    if PREFIX + length > len(view):
        raise TruncatedFileError(
            f"the header should have {length:,} bytes, and {len(view) - PREFIX:,} are there; "
            "copy or download the file again"
        )
    return bytes(view[PREFIX : PREFIX + length])


def _digits_begin(header: bytes) -> int:
    """Where in the file the digits of the checksum stand."""
    mark = header.find(CHECKSUM_MARK)
    if mark < 0:
        raise MalformedFileError("there is no checksum in its header, so it is not a .cerp file")
    return PREFIX + mark + len(CHECKSUM_MARK)


def _check_sum(view: memoryview, header: bytes, payload_length: int) -> None:
    begin = _digits_begin(header)
    end = begin + len(NO_DIGITS)
    found = zlib.crc32(view[end:], zlib.crc32(NO_DIGITS, zlib.crc32(view[:begin])))
    # As text: an upper-case digit is a flipped bit too.
    if bytes(view[begin:end]) == f"{found:08x}".encode():
        return
    missing = _promised_length(header) - payload_length
    if missing > 0:
        raise TruncatedFileError(
            f"{missing:,} bytes are missing at the end; copy or download the file again"
        )
    raise ChecksumError(
        "the checksum does not match: the file is damaged; copy or download it again"
    )


def _promised_length(header: bytes) -> int:
    """Length of the payload by a header that may be damaged; 0 if it cannot be told."""
    try:
        entries = _parsed(header)
        entries.pop("__metadata__", None)
        return max((_offsets(name, entry)[1] for name, entry in entries.items()), default=0)
    except MalformedFileError:
        return 0


def _parsed(header: bytes) -> dict[str, Any]:
    return parse_json(header, "the header")


def _metadata(entry: Any) -> dict[str, Any]:
    text = entry.get("cerp") if isinstance(entry, dict) else None
    if not isinstance(text, str):
        raise MalformedFileError("it has no metadata called 'cerp', so it is not a .cerp file")
    return parse_json(text, "the metadata")


def parse_json(text: str | bytes, what: str) -> dict[str, Any]:
    """An object of strict JSON: no NaN, no infinity, no other encoding than UTF-8."""
    try:
        decoded = text if isinstance(text, str) else text.decode()
        found = json.loads(
            decoded, parse_constant=_refuse_constant, object_pairs_hook=_distinct_keys
        )
    except (ValueError, RecursionError) as error:
        raise MalformedFileError(f"{what} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise MalformedFileError(f"{what} is not a JSON object")
    _refuse_odd(found, what)
    return found


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refuse_odd(found: dict[str, Any], what: str) -> None:
    """Refuse what other code could not take apart, or write again."""
    level: list[Any] = [found]
    for _ in range(DEEPEST + 1):
        texts = [value for value in level if isinstance(value, str)]
        texts += [key for value in level if isinstance(value, dict) for key in value]
        if not all(map(_is_unicode, texts)):
            raise MalformedFileError(f"{what} holds half a surrogate pair, which is no character")
        if not all(_is_finite(value) for value in level if isinstance(value, int | float)):
            raise MalformedFileError(f"{what} holds a number that is too large")
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise MalformedFileError(f"{what} is nested more than {DEEPEST} deep")


def _is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8, which has no half of a surrogate pair."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_finite(number: float) -> bool:
    """Whether double precision holds about as much: 1e999 is JSON, and no number anywhere."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _tensors(entries: dict[str, Any], payload: memoryview) -> Tensors:
    """Views of the payload, which the tensors must fill without gap or overlap."""
    placed = sorted(
        (*_offsets(name, entry), name, _layout(name, entry)) for name, entry in entries.items()
    )
    tensors: Tensors = {}
    expected = 0
    for begin, end, name, (dtype_name, shape) in placed:
        dtype = DTYPES[dtype_name]
        count = math.prod(shape)
        if begin != expected or end - begin != count * dtype.itemsize or end > len(payload):
            raise MalformedFileError(
                f"the tensor {name} claims bytes {begin:,} to {end:,} of {len(payload):,} for "
                f"{dtype_name} {list(shape)}; tensors must follow each other without gap or overlap"
            )
        array: npt.NDArray[Any] = np.frombuffer(payload[begin:end], dtype=dtype)
        tensors[name] = array.reshape(shape)
        expected = end
    if expected != len(payload):
        raise MalformedFileError(f"{len(payload) - expected:,} bytes belong to no tensor")
    return tensors


def _offsets(name: str, entry: Any) -> tuple[int, int]:
    offsets = _sizes(entry.get("data_offsets") if isinstance(entry, dict) else None)
    if offsets is None or len(offsets) != 2:
        raise MalformedFileError(f"the tensor {name} has no proper data_offsets")
    return offsets[0], offsets[1]


def _layout(name: str, entry: dict[str, Any]) -> tuple[str, tuple[int, ...]]:
    dtype, shape = entry.get("dtype"), _sizes(entry.get("shape"))
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise MalformedFileError(
            f"the tensor {name} has the type {dtype!r}; a .cerp file uses {', '.join(DTYPES)}"
        )
    if shape is None or len(shape) > 2:
        raise MalformedFileError(f"the tensor {name} has no proper shape")
    return dtype, shape


def _sizes(value: Any) -> tuple[int, ...] | None:
    """A list of lengths or places, of a file that any machine can hold; None if it is not one."""
    if isinstance(value, list) and all(type(n) is int and 0 <= n < 2**48 for n in value):
        return tuple(value)
    return None
