"""Ids and titles: integers as differences, strings as deflated JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from cerp.artifact.deflate import deflate
from cerp.artifact.fields import Fields
from cerp.artifact.numbers import LARGEST_NUMBER, decode_numbers, encode_numbers
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Ids
from cerp.errors import ConfigError, MalformedFileError
from cerp.naming import prefixed


def encode_ids(ids: Ids, side: str) -> tuple[dict[str, Any], Tensors]:
    """The description of a map from codes to ids, and its tensors, called ``ids...``."""
    if ids.is_range:
        return {"kind": "range"}, {}
    if not ids.are_integers:
        text = encode_strings(ids.values.tolist(), f"ids of {side}")
        return {"kind": "strings", "bytes": len(text)}, {"ids": deflate(text)}
    steps = np.diff(ids.values)
    if ids.values[0] < 0 or ids.values[-1] > LARGEST_NUMBER or (steps <= 0).any():
        raise ConfigError(
            f"integer ids of {side} must be ascending, from 0 to {LARGEST_NUMBER:,}; "
            "make them with Ids.in_native_order, or convert them to strings"
        )
    gaps = np.concatenate([ids.values[:1], steps - 1])
    return {"kind": "integers"}, prefixed("ids", encode_numbers(gaps))


def decode_ids(fields: Fields, tensors: TensorReader, count: int) -> Ids:
    """The ids of ``count`` codes."""
    kind = fields.choice("kind", ("range", "integers", "strings"))
    if kind == "range":
        return Ids.range(count)
    if kind == "integers":
        values = np.cumsum(decode_numbers(tensors.under("ids"), count) + 1) - 1
        # Each step is below 2^63, so a sum that 64 bits cannot hold shows as a descent.
        if (values[1:] <= values[:-1]).any():
            raise MalformedFileError(f"the numbers {tensors.name('ids')} are too large")
        return Ids(values)
    strings = decode_strings(tensors, "ids", fields.whole("bytes"), count)
    if len(set(strings)) != count:
        raise MalformedFileError(f"the strings {tensors.name('ids')} are not distinct")
    return Ids(np.array(strings, dtype=object))


def encode_strings(strings: list[str], what: str) -> bytes:
    """A JSON array in UTF-8."""
    try:
        return json.dumps(strings, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the {what} cannot be written in UTF-8: {error}") from None


def decode_strings(tensors: TensorReader, name: str, length: int, count: int) -> list[str]:
    """The ``count`` strings of a deflated JSON array that is ``length`` bytes long."""
    what = f"the tensor {tensors.name(name)}"
    try:
        found = json.loads(tensors.inflate(name, length).decode())
    except (ValueError, RecursionError) as error:
        raise MalformedFileError(f"{what} is not JSON: {error}") from None
    if not isinstance(found, list) or len(found) != count:
        raise MalformedFileError(f"{what} is not a list of {count:,} strings")
    if any(type(value) is not str for value in found):
        raise MalformedFileError(f"{what} holds something else than strings")
    try:
        "".join(found).encode()
    except UnicodeEncodeError:
        raise MalformedFileError(f"{what} holds half a surrogate pair") from None
    return found
