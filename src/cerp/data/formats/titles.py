"""Human-readable names of items, from a file of their own."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from cerp.data.formats.columns import ITEM_NAMES, TITLE_NAMES, Column, choose_title_columns
from cerp.data.formats.sniffing import find_delimiter, is_header, records
from cerp.data.formats.text_files import is_compressed, unpacked
from cerp.data.formats.vocabulary import CANONICAL_INTEGER
from cerp.data.ids import Id, Ids
from cerp.errors import DataError


def read_titles(path: str | os.PathLike[str]) -> dict[Id, str]:
    """Titles by item id, from delimited text: ``u.item``, ``movies.csv``, ``movies.dat``.

    The columns are found by name, else they are the first two. Text that is
    not UTF-8 is taken for Latin-1, as older title files are. Ids are integers
    if all of them are, as in `cerp.read`.
    """
    titles = _titles(Path(path))
    if all(map(CANONICAL_INTEGER.fullmatch, titles)):
        return {int(item): title for item, title in titles.items()}
    return {item: title for item, title in titles.items()}  # noqa: C416 - widens the key type


def titles_of(items: Ids, path: str | os.PathLike[str]) -> dict[Id, str]:
    """The titles in a file of the given items, under the ids that the items have."""
    titles = _titles(Path(path))
    found = {item: titles[str(item)] for item in items.values.tolist() if str(item) in titles}
    if not found:
        raise DataError(
            f"{path}: none of its {len(titles):,} ids is an item of the data, "
            f"whose first item is {items.values[0]!r}"
        )
    return found


def _titles(path: Path) -> dict[str, str]:
    text = _text(path)
    delimiter = find_delimiter(text, str(path))
    line = 0
    rows = []
    try:
        for line, fields in records(io.StringIO(text, newline=""), delimiter):
            rows.append((line, fields))
    except csv.Error as error:
        raise DataError(f"{path}, after line {line}: {error}") from None
    first, body = rows[0][1], [fields for _, fields in rows[1:]]
    columns: list[Column] = list(range(len(first)))
    if is_header(first, body, (*ITEM_NAMES, *TITLE_NAMES)):
        columns = list(first)
        rows = rows[1:]
    item, title = choose_title_columns(columns, str(path))
    for line, fields in rows:
        if len(fields) <= max(item, title):
            raise DataError(f"{path}, line {line}: {len(fields)} columns, no item id and title")
    return {fields[item]: fields[title] for _, fields in rows}


def _text(path: Path) -> str:
    try:
        content = b"".join(unpacked(path)) if is_compressed(path) else path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: the titles cannot be read ({error})") from None
    if b"\0" in content:
        raise DataError(f"{path}: binary data (it contains NUL bytes), not a file of titles")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")
