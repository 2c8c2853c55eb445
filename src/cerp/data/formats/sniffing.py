"""The layout of delimited text: delimiter, header and columns, told from its first lines.

By hand, because DuckDB's ``sniff_csv`` (2.0) takes a file for something that it is not without
saying so: ``::`` and blanks are no delimiters to it (one column), the first of nothing but
text ids is a header, and where a later line has one column more, all lines above are skipped.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cerp.data.formats.columns import ITEM_NAMES, USER_NAMES, Column, is_recognised
from cerp.data.formats.text_files import BLANKS, comment_error, empty_error, overlong_error
from cerp.errors import ColumnsError, DataError

DELIMITERS = ("::", "\t", ",", ";", "|", " ")
"""In order of preference where several fit."""

NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)

Record = tuple[int, list[str]]
"""The line, from 1, on which a record starts, and its fields."""


@dataclass(frozen=True)
class Layout:
    """How to read one delimited file."""

    delimiter: str
    columns: tuple[Column, ...]
    """Names from the header; positions where there is none."""
    skip: int
    """Lines before the first row of data."""
    numeric: frozenset[int]
    """Positions that hold nothing but numbers in the first lines."""

    @property
    def has_header(self) -> bool:
        """Whether the columns have names."""
        return isinstance(self.columns[0], str)


def records(lines: Iterable[str], delimiter: str) -> Iterator[Record]:
    """The records of delimited text; empty lines are none.

    Fields may be quoted with double quotes, except where the delimiter is
    ``::``: the files that use it quote nothing.
    """
    if len(delimiter) > 1:
        for number, line in enumerate(lines, start=1):
            if text := line.rstrip("\r\n"):
                yield number, _trimmed(text.split(delimiter))
        return
    # As DuckDB does, take `a, "b, c"` for two fields.
    skip_blank = delimiter != " "
    reader = csv.reader(lines, delimiter=delimiter, strict=True, skipinitialspace=skip_blank)
    while True:
        start = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        if fields:
            yield start, _trimmed(fields)


def sniff(
    head: str,
    source: str,
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    asked: Collection[Column | None] = (),
    is_whole: bool = True,
    decimal: str | None = None,
) -> Layout:
    """The layout of interactions in text that starts with ``head`` (whole lines).

    ``is_whole`` says whether that is all of the text.
    """
    _refuse_comment(head, source, DELIMITERS if delimiter is None else (delimiter,))
    delimiter = delimiter or find_delimiter(head, source)
    rows = first_records(head, delimiter, source)
    if not rows:
        raise empty_error(source)
    first = rows[0][1]
    body = [fields for _, fields in rows[1:]]
    if header is None:
        header = is_header(first, body, (*USER_NAMES, *ITEM_NAMES), asked)
    if header is None:
        raise ColumnsError(
            f"{source}: cannot tell whether line 1 is a header ({', '.join(first)}); "
            "say so with header=True or header=False, or name the columns with user= and item="
        )
    if not header:
        body = [first, *body]
    elif not body:
        raise _no_rows_error(head, delimiter, source, is_whole=is_whole)
    return Layout(
        delimiter,
        columns=tuple(first) if header else tuple(range(len(first))),
        # Empty lines may come first, and quoted names may hold line breaks.
        skip=rows[0][0] - 1 + (1 + "".join(first).count("\n") if header else 0),
        numeric=_numeric(body, len(first), decimal),
    )


def is_header(
    first: list[str],
    body: list[list[str]],
    known: Sequence[Collection[str]],
    asked: Collection[Column | None] = (),
) -> bool | None:
    """Whether the first record names the columns; None if that cannot be told.

    It does if it holds a known name. Otherwise it does not if it holds a number,
    and does if it holds a name asked for or a column below it is numeric.
    """
    if any(is_recognised(name, known) for name in first):
        return True
    if any(NUMBER.fullmatch(name) for name in first):
        return False
    return True if any(name in asked for name in first) or _numeric(body, len(first)) else None


def find_delimiter(head: str, source: str) -> str:
    """The delimiter that cuts most records into as many fields as the first."""
    if not head.strip():
        raise empty_error(source)
    fits = {delimiter: regularity(head, delimiter) for delimiter in DELIMITERS}
    best = max(fits, key=lambda delimiter: fits[delimiter])
    if fits[best] == 0.0:
        raise DataError(
            f"{source}: line 1 has a single column (no tab, comma, semicolon, '|', '::' or "
            "space in it); a table needs users and items; is it another delimiter=?"
        )
    return best


def regularity(head: str, delimiter: str) -> float:
    """The share of records with as many fields, two or more, as the first."""
    try:
        first = next(records(io.StringIO(head, newline=""), delimiter), None)
        if first is None or len(first[1]) < 2:  # the rest of a long file need not be cut
            return 0.0
        widths = [len(fields) for _, fields in first_records(head, delimiter, "")]
    except csv.Error:  # in the first record; a later one ends what is looked at
        return 0.0
    return sum(width == widths[0] for width in widths) / len(widths)


def first_records(head: str, delimiter: str, source: str) -> list[Record]:
    """The records of the first lines; a broken one ends them unless it is the first."""
    found: list[Record] = []
    try:
        for record in records(io.StringIO(head, newline=""), delimiter):
            found.append(record)  # noqa: PERF402 - what came before an error counts
    except csv.Error as error:
        if not found:
            raise DataError(f"{source}, line 1: not delimited text ({error})") from None
    return found


def _refuse_comment(head: str, source: str, delimiters: Sequence[str]) -> None:
    """Refuse a first line that starts with '#' and is cut otherwise than the rows after it.

    It would pass for a row, and decide the delimiter.
    """
    if not head.lstrip().startswith("#"):
        return
    lines = [line for line in io.StringIO(head, newline="") if line.strip()]
    body = "".join(itertools.dropwhile(lambda line: line.lstrip().startswith("#"), lines))
    delimiter = max(delimiters, key=lambda candidate: regularity(body, candidate))
    if regularity(lines[0] + body, delimiter) < regularity(body, delimiter):
        raise comment_error(source, head[: head.index("#")].count("\n") + 1)


def _trimmed(fields: list[str]) -> list[str]:
    return [field.strip(BLANKS) for field in fields]


def _no_rows_error(head: str, delimiter: str, source: str, *, is_whole: bool) -> DataError:
    """Why there is nothing after the header."""
    try:
        *_, _last = records(io.StringIO(head, newline=""), delimiter)
    except csv.Error as error:
        return DataError(f"{source}, after line 1: not delimited text ({error})")
    if not is_whole:
        return overlong_error(source, head.count("\n") + 1)
    return DataError(
        f"{source}: the file holds a header line and no rows; each interaction is a row with a "
        "user and an item"
    )


def _numeric(body: list[list[str]], width: int, decimal: str | None = None) -> frozenset[int]:
    full = [fields for fields in body if len(fields) == width]
    if decimal is not None:
        full = [[field.replace(decimal, ".") for field in fields] for fields in full]
    return frozenset(
        k for k in range(width) if full and all(NUMBER.fullmatch(row[k]) for row in full)
    )
