"""The LightGCN text format: one line per user, ``user item item ...``.

The lingua franca of collaborative-filtering benchmarks, and how cerp saves a
split. Needs nothing but NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cerp.data.formats.base import FileFormat, SourceFile
from cerp.data.formats.columns import Wanted
from cerp.data.formats.text_files import BLANKS, comment_error, empty_error, nul_error
from cerp.data.formats.vocabulary import CANONICAL_INTEGER, LARGEST_ID, LONG_INTEGER
from cerp.data.ids import Ids, flaw_of
from cerp.data.interactions import Interactions
from cerp.errors import DataError

SURE_DIGITS = 18
"""Integers of so many digits fit 64 bits."""


class ParsedFile(NamedTuple):
    """One file as columns of original ids: int64, or strings as they stand."""

    user: npt.NDArray[Any]
    item: npt.NDArray[Any]
    lines: npt.NDArray[Any]
    """Every user that has a line, also one without items (common in test files)."""


def read_lightgcn(file: SourceFile, wanted: Wanted) -> Interactions:
    """The interactions in a file of its own."""
    try:
        parsed = parse([file.plain])[0]
    except DataError as error:
        raise DataError(str(error).replace(str(file.plain), str(file.path))) from None
    user, item, lines = (
        column.astype(str).astype(object) if wanted.ids == "string" else column for column in parsed
    )
    users, codes = Ids.in_native_order(np.concatenate([lines, user]))
    items, item_codes = Ids.in_native_order(item)
    return Interactions.from_codes(codes[len(lines) :], item_codes, users=users, items=items)


def parse(paths: Sequence[Path], *, may_be_empty: Collection[Path] = ()) -> list[ParsedFile]:
    """Read files that belong together.

    Ids are integers if all of that side, in all files, are plain ones: where
    one file holds ``007``, then ``7`` in another is a string too.
    """
    plain = [_plain(path) for path in paths]
    if all(one is not None and len(one.lines) for one in plain):
        return [one for one in plain if one is not None]
    tables = [_rows(path) for path in paths]
    for path, rows in zip(paths, tables, strict=True):
        if not rows and path not in may_be_empty:
            raise empty_error(path)
    lines = _id_columns([[row[0] for row in rows] for rows in tables], paths, "user")
    items = _id_columns(
        [[token for row in rows for token in row[1:]] for rows in tables], paths, "item"
    )
    return [
        ParsedFile(np.repeat(users, _item_counts(rows)), item, users)
        for rows, users, item in zip(tables, lines, items, strict=True)
    ]


def _plain(path: Path) -> ParsedFile | None:
    """A file of nothing but plain integers, blanks and line breaks, as most are; otherwise None.

    What it says is what `_rows` would find, in a tenth of the time.
    """
    content = path.read_bytes()
    letters = np.frombuffer(content, dtype=np.uint8)
    is_digit = (letters >= ord("0")) & (letters <= ord("9"))
    is_break = (letters == ord("\n")) | (letters == ord("\r"))
    is_blank = np.isin(letters, np.frombuffer(BLANKS.encode(), dtype=np.uint8))
    if not (is_digit | is_break | is_blank).all():
        return None
    edges = np.flatnonzero(np.diff(is_digit, prepend=False, append=False))
    starts, lengths = edges[::2], np.diff(edges)[::2]
    is_odd = (letters[starts] == ord("0")) & (lengths > 1)
    if is_odd.any() or lengths.max(initial=0) > SURE_DIGITS:
        return None
    numbers = np.fromstring(content.decode(), dtype=np.int64, sep=" ")
    line = np.cumsum(is_break, dtype=np.int32)[starts]
    is_user = np.diff(line, prepend=-1) != 0
    users = numbers[is_user]
    counts = np.diff(np.append(np.flatnonzero(is_user), len(numbers))) - 1
    return ParsedFile(np.repeat(users, counts), numbers[~is_user], users)


def _rows(path: Path) -> list[list[str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text (byte {error.start})") from None
    if "\0" in text:
        raise nul_error(path, text.count("\n", 0, text.index("\0")) + 1)
    rows = []
    # Blanks and tabs separate ids, line breaks users; other white space is part of an id.
    for number, line in enumerate(re.split("\r\n|\r|\n", text), start=1):
        if line.startswith("#"):
            raise comment_error(path, number)
        if tokens := list(filter(None, re.split(f"[{BLANKS}]", line))):
            rows.append(tokens)
    return rows


def _item_counts(rows: list[list[str]]) -> npt.NDArray[np.int64]:
    return np.array([len(row) - 1 for row in rows], dtype=np.int64)


def _id_columns(
    columns: list[list[str]], paths: Sequence[Path], what: str
) -> list[npt.NDArray[Any]]:
    if not all(CANONICAL_INTEGER.fullmatch(token) for column in columns for token in column):
        for column, path in zip(columns, paths, strict=True):
            for token in column:
                if flaw := flaw_of(token):
                    raise DataError(f"{path}: {what} id {token[:20]!r} {flaw}")
        return [np.array(column, dtype=object) for column in columns]
    return [_integers(column, path, what) for column, path in zip(columns, paths, strict=True)]


def _integers(tokens: list[str], path: Path, what: str) -> npt.NDArray[np.int64]:
    try:
        numbers = np.array(tokens, dtype=np.int64)
    except (OverflowError, ValueError):  # Python refuses to parse very long numbers
        raise _too_large_error(max(tokens, key=len), path, what) from None
    if numbers.size and numbers.max() > LARGEST_ID:
        raise _too_large_error(str(numbers.max()), path, what)
    if numbers.size and numbers.min() < 0:
        raise DataError(f"{path}: {what} id {numbers.min()} is negative; ids start at 0")
    return numbers


def _too_large_error(number: str, path: Path, what: str) -> DataError:
    if number.startswith("-"):
        return DataError(f"{path}: {what} id {number[:LONG_INTEGER]} is negative; ids start at 0")
    shown = number if len(number) < LONG_INTEGER else f"{number[:20]}... of {len(number):,} digits"
    return DataError(f"{path}: {what} id {shown} is above {LARGEST_ID}, the largest integer id")


# ``.txt`` says little: `cerp.data.formats.recognising` looks at the content.
LIGHTGCN = FileFormat("the LightGCN format", read_lightgcn, options=frozenset({"ids"}))
