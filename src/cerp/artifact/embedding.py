"""Embedding tables to tensors and back: positions, then values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np

from cerp.artifact.books import apart, read_books, stacked
from cerp.artifact.codes import CODES_CODECS, decode_codes, encode_codes
from cerp.artifact.fields import Fields
from cerp.artifact.model import ComposedEmbedding, FloatArray, PropagatedTables, Table
from cerp.artifact.positions import POSITIONS_CODECS, Mask, decode_positions, encode_positions
from cerp.artifact.quantize import (
    VALUES_CODECS,
    ValuesCodec,
    decode_values,
    encode_values,
    values_size,
)
from cerp.artifact.tensors import TensorReader, Tensors, total_bytes
from cerp.assignment.index import Combine, Index, IndexKind
from cerp.errors import ConfigError, MalformedFileError
from cerp.naming import prefixed

FREE_CELLS = 2**22
CELLS_PER_BYTE = 256
"""A file may not ask for more cells of tables than `FREE_CELLS`, 16 MB of floats, and so many
for each byte that it spends on them: a header alone must not claim memory."""

INDEX_KINDS: tuple[IndexKind, ...] = get_args(IndexKind)
COMBINATIONS: tuple[Combine, ...] = get_args(Combine)


def encode_embedding(
    embedding: ComposedEmbedding | PropagatedTables,
    values: ValuesCodec,
    *,
    is_random: bool = False,
    stacks_books: bool = False,
) -> tuple[dict[str, Any], Tensors]:
    """The description of an embedding and its tensors; ``is_random`` as in `encode_positions`.

    ``stacks_books``: books that are alike are described once, which readers from before refuse.
    """
    if isinstance(embedding, PropagatedTables):
        users, items = (_encode_dense(side, values) for side in (embedding.users, embedding.items))
        coded = prefixed("propagated.users", users) | prefixed("propagated.items", items)
        return {"columns": embedding.dim, "propagated": True, "values": values}, coded
    tensors: Tensors = {}
    described = []
    together = stacked(embedding.tables) if stacks_books else None
    for number, table in enumerate(embedding.tables if together is None else (together,)):
        description, own = _encode_table(table, values, is_random)
        described.append(description)
        tensors |= prefixed(f"embedding.{number}", own)
    if together is not None:
        books = len(embedding.tables)
        described[0] |= {"books": books, "rows": len(together.weight) // books}
    cells = sum(table.weight.size for table in embedding.tables)
    if not may_have(cells, total_bytes(tensors)):
        raise ConfigError(
            f"{sum(entry['stored'] for entry in described):,} stored values of {cells:,} are too "
            "few: readers refuse tables that could fill their memory from so little a file; "
            "use smaller tables (fewer buckets or dimensions)"
        )
    return {"combine": embedding.combine, "tables": described}, tensors


def decode_embedding(
    fields: Fields, tensors: TensorReader, num_users: int, num_items: int
) -> ComposedEmbedding | PropagatedTables:
    """The embedding that a file describes."""
    if fields.values.get("propagated") is True:
        columns = fields.whole("columns", smallest=1)
        codec = fields.choice("values", VALUES_CODECS)
        users, items = (
            _decode_dense(tensors.under("propagated").under(side), count, columns, codec)
            for side, count in (("users", num_users), ("items", num_items))
        )
        return PropagatedTables(users, items)
    described = fields.groups("tables")
    cells = sum(
        read_books(entry) * entry.whole("rows") * entry.whole("columns", smallest=1)
        for entry in described
    )
    stored_bytes = tensors.under("embedding").total_bytes
    if not may_have(cells, stored_bytes):
        raise MalformedFileError(
            f"tables of {cells:,} cells are claimed from {stored_bytes:,} bytes; "
            f"{CELLS_PER_BYTE} for each byte are the most that is accepted"
        )
    tables: list[Table] = []
    for number, entry in enumerate(described):
        books = read_books(entry)
        own = tensors.under(f"embedding.{number}")
        table = _decode_table(entry, own, num_users + num_items, books)
        tables += [table] if books == 1 else apart(table, books)
    return ComposedEmbedding(tuple(tables), fields.choice("combine", COMBINATIONS))


def stored_precision(fields: Fields) -> ValuesCodec | None:
    """The precision of the values that a file describes; None where its tables differ."""
    described = [fields] if fields.values.get("propagated") is True else fields.groups("tables")
    found = {entry.choice("values", VALUES_CODECS) for entry in described}
    return found.pop() if len(found) == 1 else None


def may_have(cells: int, stored_bytes: int) -> bool:
    """Whether tables of so many cells may be made from so many bytes."""
    return cells <= FREE_CELLS + CELLS_PER_BYTE * stored_bytes


def table_bytes(mask: Mask, *, is_random: bool = False) -> dict[ValuesCodec, int]:
    """What a table whose stored values are ``mask`` takes in a file: values, scales, positions.

    By precision. Exact, and without the values: no codec of theirs depends on them.
    """
    _, positions = encode_positions(mask, is_random=is_random)
    beside, stored = total_bytes(positions), int(mask.sum())
    return {codec: beside + values_size(stored, len(mask), codec) for codec in VALUES_CODECS}


def _encode_table(
    table: Table, values: ValuesCodec, is_random: bool
) -> tuple[dict[str, Any], Tensors]:
    rows, columns = table.weight.shape
    mask = table.stored
    codec, positions = encode_positions(mask, is_random=is_random)
    counts = mask.sum(axis=1, dtype=np.int64)
    tensors = encode_values(table.weight[mask], counts, values)
    chosen: dict[str, str] = {}
    if table.index.codes is not None:
        chosen["codes"], coded = encode_codes(
            table.index.codes, table.index.size, is_random=is_random
        )
        tensors |= coded
    description = {
        "columns": columns,
        "index": {
            "factor": table.index.factor,
            "kind": table.index.kind,
            "offset": table.index.offset,
            "size": table.index.size,
            **chosen,
        },
        "positions": codec,
        "rows": rows,
        "stored": int(counts.sum()),
        "values": values,
    }
    return description, tensors | prefixed("positions", positions)


def _decode_table(fields: Fields, tensors: TensorReader, num_entities: int, books: int) -> Table:
    """The table of an entry, or all its books above each other."""
    rows, columns = books * fields.whole("rows"), fields.whole("columns")
    stored = fields.whole("stored", largest=rows * columns)
    values = fields.choice("values", VALUES_CODECS)
    codec = fields.choice("positions", POSITIONS_CODECS)
    entry = fields.group("index")
    kind = entry.choice("kind", INDEX_KINDS)
    index = Index(kind, entry.whole("size"), entry.whole("factor"), entry.whole("offset"))
    if kind == "coded":
        chosen = entry.choice("codes", CODES_CODECS)
        size = entry.whole("size", smallest=1)
        codes = decode_codes(tensors, chosen, size, books * num_entities)
        index = replace(index, codes=codes)
    if codec == "dense":
        if stored != rows * columns:
            raise MalformedFileError(f"{fields.path} is dense but does not store all its values")
        return Table(index, _decode_dense(tensors, rows, columns, values))
    cells = decode_positions(tensors.under("positions"), codec, rows, columns, stored)
    weight = np.zeros(rows * columns, dtype=np.float32)
    mask = np.zeros(rows * columns, dtype=bool)
    counts = np.bincount(cells // columns, minlength=rows)
    weight[cells] = decode_values(tensors, counts, values)
    mask[cells] = True
    return Table(index, weight.reshape(rows, columns), mask.reshape(rows, columns))


def _encode_dense(table: FloatArray, values: ValuesCodec) -> Tensors:
    return encode_values(table.reshape(-1), np.full(*table.shape), values)


def _decode_dense(
    tensors: TensorReader, rows: int, columns: int, values: ValuesCodec
) -> FloatArray:
    return decode_values(tensors, np.full(rows, columns), values).reshape(rows, columns)
