"""Many lines of one form cut where their separators are, which are found in all bytes at once.

A comparison of bytes goes through two megabytes in the time in which a step of `line_cutter` goes
through one word of each line. So separators are found in all bytes, and have to be as many in every
line as in the form; the text around them has to be that of the form; and what no field may hold has
to occur as often as that text holds it. Only fields that are asked for become words.

Where any of that does not hold, lines may be of the form still: a separator within quotes will do.
`line_cutter`, which goes through lines byte by byte, is asked then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cerp.data.formats.line_cutter import INSIDE, MOST_WORDS, WORD, Cut, Words, are_numbers
from cerp.data.formats.line_form import LineForm
from cerp.data.ids import Int64Array

Bytes = npt.NDArray[np.uint8]

LINE_BREAK = ord("\n")
SEPARATORS = b",;\t|: "
"""What may stand between all fields of a line."""
FEW = 4
"""Bytes that are compared one by one; more of them are compared as words."""


class Scratch:
    """Room for what lies between the steps, used again for every chunk.

    Fresh memory of that size costs several times what is done with it.
    """

    def __init__(self, room: int) -> None:
        self.content = np.empty(room, dtype=np.uint8)
        self.is_break = np.empty(room, dtype=bool)
        self.is_found = np.empty(room, dtype=bool)


@dataclass(frozen=True)
class _Gap:
    """What stands before a field, or behind the last."""

    text: bytes
    column: int
    """Which separator of a line its first is, -1 where it has none: the gap at the start."""
    anchor: int
    """Where in it that is."""


@dataclass(frozen=True)
class FlatForm:
    """A form as this module needs it."""

    form: LineForm
    separator: int

    @classmethod
    def of(cls, form: LineForm) -> FlatForm | None:
        """None where no character separates all fields."""
        texts = _gaps_of(form)
        common = [byte for byte in SEPARATORS if all(byte in text for text in texts[1:-1])]
        if not common:
            return None
        return cls(form, min(common, key=b"".join(texts).count))

    @cached_property
    def gaps(self) -> list[_Gap]:
        """The text between fields."""
        gaps, column = [], 0
        for text in _gaps_of(self.form):
            ends = [at for at, byte in enumerate(text) if byte in (self.separator, LINE_BREAK)]
            gaps.append(_Gap(text, column if ends else -1, ends[0] if ends else 0))
            column += len(ends)
        return gaps

    @cached_property
    def text(self) -> bytes:
        """All of a line but its fields."""
        return b"".join(gap.text for gap in self.gaps)

    @cached_property
    def width(self) -> int:
        """How many separators a line has, its line break included."""
        return self.text.count(self.separator) + 1

    @cached_property
    def banned(self) -> list[int]:
        """Other characters that end a field, or may not be in one, of those that hold text."""
        found = (field.end + field.banned for field in self.form.fields if not field.is_number)
        return sorted(set(b"".join(found)) - {self.separator, LINE_BREAK})


def _gaps_of(form: LineForm) -> list[bytes]:
    ends = [b"", *(field.end for field in form.fields)]
    befores = [*(field.before for field in form.fields), form.last]
    return [end + before for end, before in zip(ends, befores, strict=True)]


def cut_flat(
    text: Bytes, size: int, flat: FlatForm, wanted: Collection[int], scratch: Scratch
) -> dict[int, Cut] | None:
    """The wanted fields of the lines that the first bytes of a text are; None where it cannot tell.

    ``text`` holds `bytes_of_line` from the start of each line on.
    """
    whole = text[:size]
    table = _separators(whole, flat, scratch)
    if table is None or not _has_no_other(whole, flat, len(table), scratch):
        return None
    begins = np.empty(len(table), dtype=np.int64)
    begins[:1] = 0
    np.add(table[:-1, -1], 1, out=begins[1:])
    places = [begins if gap.column < 0 else table[:, gap.column] - gap.anchor for gap in flat.gaps]
    starts = [place + len(gap.text) for place, gap in zip(places[:-1], flat.gaps, strict=False)]
    lengths = [end - start for start, end in zip(starts, places[1:], strict=True)]
    # Before anything is looked up, which would be beyond the text otherwise.
    if any(length.min() < 0 or length.max() >= MOST_WORDS * WORD for length in lengths):
        return None
    if not all(_all_hold(text, place, gap) for place, gap in zip(places, flat.gaps, strict=True)):
        return None
    fields: dict[int, Cut] = {}
    for number, field in enumerate(flat.form.fields):
        if number in wanted or field.is_number:
            length = lengths[number]
            fields[number] = Cut(_words(text, starts[number], length), length)
            if field.is_number and not are_numbers(fields[number]):
                return None
    return fields


def _separators(whole: Bytes, flat: FlatForm, scratch: Scratch) -> Int64Array | None:
    """Where the separators of each line are; None where a line has more or less of them."""
    is_break = np.equal(whole, LINE_BREAK, out=scratch.is_break[: len(whole)])
    lines = int(np.count_nonzero(is_break))
    found = np.equal(whole, flat.separator, out=scratch.is_found[: len(whole)])
    found |= is_break
    places = np.flatnonzero(found)
    if len(places) != lines * flat.width:
        return None
    table = places.reshape(lines, flat.width)
    # There are as many line breaks as lines, so that nowhere else is any.
    return table if is_break.take(table[:, -1]).all() else None


def _has_no_other(whole: Bytes, flat: FlatForm, lines: int, scratch: Scratch) -> bool:
    """Whether only the form's own text holds what no field may hold."""
    found = scratch.is_found[: len(whole)]
    # Bytes beyond ASCII are negative, and so these and control characters are found at once.
    np.less(whole.view(np.int8), ord(" "), out=found)
    if np.count_nonzero(found) != lines * sum(byte < ord(" ") for byte in flat.text):
        return False
    for byte in flat.banned:
        np.equal(whole, byte, out=found)
        if np.count_nonzero(found) != lines * flat.text.count(byte):
            return False
    return True


def _all_hold(text: Bytes, places: Int64Array, gap: _Gap) -> bool:
    """Whether the gap's text is there in all lines; its anchor is known to be."""
    if len(gap.text) > FEW:
        words = _loaded(text, places, -(-len(gap.text) // WORD))
        for at, word in zip(range(0, len(gap.text), WORD), words, strict=True):
            part = gap.text[at : at + WORD]
            expected = np.uint64(int.from_bytes(part, "little"))
            if ((word ^ expected) & INSIDE[0][len(part)]).any():
                return False
        return True
    return all(
        (text[at:].take(places) == byte).all()
        for at, byte in enumerate(gap.text)
        if gap.column < 0 or at != gap.anchor
    )


def _words(text: Bytes, starts: Int64Array, length: Int64Array) -> list[Words]:
    """What is between the starts and the ends of a field."""
    least, most = int(length.min()), int(length.max())
    words = []
    loaded = _loaded(text, starts, most // WORD + 1)
    for word, inside in zip(loaded, INSIDE, strict=False):
        is_alike = inside[least] == inside[most]
        words.append(word & (inside[least] if is_alike else inside.take(length)))
    return words


def _loaded(text: Bytes, places: Int64Array, count: int) -> list[Words]:
    """So many words from each place on."""
    size = count * WORD
    every = np.ndarray((len(text) - size + 1,), f"V{size}", text, strides=(1,))
    words = every[places].view("<u8").reshape(-1, count)
    return [words[:, place] for place in range(count)]
