"""What to call items: a text file of item ids and titles."""

from __future__ import annotations

import csv
from pathlib import Path

from cerp.data.ids import Ids
from cerp.errors import DataError

DELIMITERS = ",\t|;"


def read_titles(path: str | Path, items: Ids) -> list[str]:
    """Titles by item code, from a file whose first two columns are item ids and titles.

    Columns are separated by a comma, tab, bar or semicolon, whichever the first
    line has first; a header is skipped, since it names no item. Items that the
    file does not have are called by their ids.
    """
    rows = list(csv.reader(_text(Path(path)).splitlines(), delimiter=_delimiter(Path(path))))
    titles = {row[0]: row[1] for row in rows if len(row) >= 2}
    names = [str(item) for item in items.values.tolist()]
    if not any(name in titles for name in names):
        raise DataError(
            f"none of the ids in the first column of {path} is an item of the model; the file "
            "must have an item id and a title in each line"
        )
    return [titles.get(name, name) for name in names]


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")  # as MovieLens has it


def _delimiter(path: Path) -> str:
    first = _text(path).partition("\n")[0]
    found = next((character for character in first if character in DELIMITERS), None)
    if found is None:
        raise DataError(f"the first line of {path} has no comma, tab, bar or semicolon")
    return found
