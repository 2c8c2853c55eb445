"""What all lines of a regular file have in common: the text around their fields.

It is told from one line. Whether the others are of that form is seen where they are cut
(`cerp.data.formats.line_cutter`).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

LINE_BREAKS = (b"\n", b"\r\n")
MEMBER = re.compile(
    rb'[^"]*"(?P<name>[^"\\]*)"[ \t]*:[ \t]*'
    rb'(?:"(?P<text>[^"\\]*)"|(?P<number>[0-9]+)(?=[ \t]*[,}]))'
)
"""A name and a value of a JSON object. That the line is JSON is for the JSON parser to say."""


@dataclass(frozen=True)
class Field:
    """A field that every line has."""

    before: bytes
    """The text between it and the character that ends the field before it."""
    end: bytes
    """The character that ends it, which it does not hold."""
    banned: bytes
    """Characters that it does not hold either."""
    is_number: bool = False
    """Whether it is a whole number without a sign or leading zeros."""


@dataclass(frozen=True)
class LineForm:
    """The fields of every line, in their order."""

    fields: tuple[Field, ...]
    last: bytes
    """What is left of a line behind the character that ends its last field."""


def delimited_form(
    line: bytes, delimiter: str, columns: int, time: int | None = None
) -> LineForm | None:
    """The form of delimited text with such a line, where the line is plain enough to tell it.

    ``time`` is the column that has to hold whole numbers.
    """
    text = line.rstrip(b"\r\n")
    separator = delimiter.encode()
    cells = text.split(separator)
    if line[len(text) :] not in LINE_BREAKS or len(cells) != columns:
        return None
    spans, banned, start = [], [], 0
    for cell in cells:
        quote = b'"' if len(delimiter) == 1 and cell.startswith(b'"') else b""
        if cell.count(b'"') != 2 * len(quote) or not cell.endswith(quote):
            return None
        spans.append((start + len(quote), start + len(cell) - len(quote)))
        banned.append(b"" if quote else b'"')
        start += len(cell) + len(separator)
    banned[-1] += b"" if quote else separator[:1]  # which would begin one column more
    return _form(line, spans, banned, [column == time for column in range(columns)])


def json_form(line: bytes) -> tuple[LineForm, list[str]] | None:
    """The form of JSON lines with such a line, where it is plain enough, and the names in it."""
    members, position = [], 0
    while member := MEMBER.match(line, position):
        members.append(member)
        position = member.end()
    names = [member["name"].decode(errors="replace") for member in members]
    # Other readers take names for one that differ in capitals only.
    if not names or len({name.lower() for name in names}) < len(names):
        return None
    try:
        if list(json.loads(line)) != names:
            return None
    except ValueError:
        return None
    spans = [member.span(member.lastgroup or 0) for member in members]
    is_number = [member.lastgroup == "number" for member in members]
    return _form(line, spans, [b"" if number else b"\\" for number in is_number], is_number), names


def _form(
    line: bytes,
    spans: Sequence[tuple[int, int]],
    banned: Sequence[bytes],
    is_number: Sequence[bool],
) -> LineForm:
    """The form of a line whose fields lie in the given places."""
    begins = [0, *(end + 1 for _, end in spans)]
    befores = [line[begin:start] for begin, (start, _) in zip(begins, spans, strict=False)]
    ends = [line[end : end + 1] for _, end in spans]
    fields = itertools.starmap(Field, zip(befores, ends, banned, is_number, strict=True))
    return LineForm(tuple(fields), line[begins[-1] :])
