"""Books that are alike, one above the other as one table: a single description for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cerp.artifact.fields import Fields
from cerp.artifact.model import Table
from cerp.errors import MalformedFileError

MOST_BOOKS = 2**16 - 1


def stacked(tables: Sequence[Table]) -> Table | None:
    """All tables as one, with the codes of one behind those of the other; None: they differ."""
    first = tables[0]
    kind, size = first.index.kind, first.index.size
    codes = [table.index.codes for table in tables if table.index.codes is not None]
    alike = all(
        (table.index.kind, table.index.size, table.weight.shape) == (kind, size, first.weight.shape)
        for table in tables
    )
    if kind != "coded" or size < 2 or not alike or not 2 <= len(tables) <= MOST_BOOKS:
        return None
    is_whole = all(table.mask is None for table in tables)
    return Table(
        replace(first.index, codes=np.concatenate(codes)),
        np.concatenate([table.weight for table in tables]),
        None if is_whole else np.concatenate([table.stored for table in tables]),
    )


def apart(table: Table, books: int) -> tuple[Table, ...]:
    """The tables that `stacked` put together."""
    codes = table.index.codes
    assert codes is not None
    masks = [None] * books if table.mask is None else np.split(table.mask, books)
    parts = zip(np.split(codes, books), np.split(table.weight, books), masks, strict=True)
    return tuple(
        Table(replace(table.index, codes=own), weight, mask) for own, weight, mask in parts
    )


def read_books(fields: Fields) -> int:
    """How many tables an entry describes; more than one have codes, which no header can make up."""
    if "books" not in fields:
        return 1
    index = fields.group("index")
    if index.values.get("kind") != "coded":
        raise MalformedFileError(f"{fields.path} has several books, and no codes")
    index.whole("size", smallest=2)
    return fields.whole("books", smallest=2, largest=MOST_BOOKS)
