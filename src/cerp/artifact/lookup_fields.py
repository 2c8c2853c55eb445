"""Fields of a file for lookups, to tensors and back: names, ids, and tables stored whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from cerp.artifact.fields import Fields
from cerp.artifact.model import LookupField
from cerp.artifact.names import decode_ids, encode_ids
from cerp.artifact.quantize import VALUES_CODECS, decode_values, encode_values
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Ids
from cerp.errors import MalformedFileError
from cerp.naming import prefixed

VALUES_PER_BYTE = 2
"""At most: in int4."""


def encode_fields(fields: tuple[LookupField, ...]) -> tuple[dict[str, Any], Tensors]:
    """The entry of the metadata, and the tensors, called ``fields.<number>...``."""
    entries: list[dict[str, Any]] = []
    tensors: Tensors = {}
    for number, field in enumerate(fields):
        described, own = encode_ids(field.ids, f"the field {field.name!r}")
        entry: dict[str, Any] = {"count": len(field.ids), "ids": described, "name": field.name}
        if field.table is not None:
            rows, columns = field.table.shape
            entry |= {"columns": columns, "values": field.values}
            own |= encode_values(field.table.reshape(-1), np.full(rows, columns), field.values)
        entries.append(entry)
        tensors |= prefixed(f"fields.{number}", own)
    return {"list": entries}, tensors


def decode_fields(entry: Fields, tensors: TensorReader, num_shared: int) -> tuple[LookupField, ...]:
    """The fields that a file describes; ``num_shared`` ids are those of its tables."""
    described = entry.groups("list")
    shared = sum(one.whole("count", smallest=1) for one in described if "values" not in one)
    if shared != num_shared:
        raise MalformedFileError(
            f"{entry.path} has {shared:,} ids in shared tables, which are of {num_shared:,}"
        )
    return tuple(
        _decoded(one, tensors.under(f"fields.{number}")) for number, one in enumerate(described)
    )


def _decoded(entry: Fields, tensors: TensorReader) -> LookupField:
    count, name = entry.whole("count", smallest=1), entry.word("name")
    if "values" not in entry:
        return LookupField(name, _ids(entry, tensors, count))
    columns = entry.whole("columns", smallest=1)
    values = entry.choice("values", VALUES_CODECS)
    # Before anything is made of that size: a header alone must not claim memory.
    if count * columns > VALUES_PER_BYTE * tensors.total_bytes:
        raise MalformedFileError(
            f"{entry.path} claims {count:,} vectors of {columns:,} numbers from "
            f"{tensors.total_bytes:,} bytes"
        )
    table = decode_values(tensors, np.full(count, columns), values).reshape(count, columns)
    return LookupField(name, _ids(entry, tensors, count), table, values)


def _ids(entry: Fields, tensors: TensorReader, count: int) -> Ids:
    return decode_ids(entry.group("ids"), tensors, count)
