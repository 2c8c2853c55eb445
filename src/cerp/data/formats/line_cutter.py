"""Many lines of one form cut side by side, eight bytes of each line at a time, by NumPy.

Eight bytes are one number, whose lowest byte comes first. What is asked of each byte is answered
in its highest bit: `x - 0x0101...` borrows from it where the byte is zero. A borrow goes on to the
bytes above, so that the answer holds up to the first byte of which it is true: enough for where
a field ends, and for whether anything in it is odd.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerp.data.formats.line_form import Field, LineForm
from cerp.data.ids import Int64Array
from cerp.errors import DataError

Words = npt.NDArray[np.uint64]
"""Eight bytes of each line."""

WORD = 8
MOST_WORDS = 6
"""Of a field. Longer ones are left to other readers: each word costs as much as a short field."""
MOST_DIGITS = 2 * WORD


def _repeated(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([byte]) * WORD, "little"))


ONES, HIGHEST_BITS = _repeated(1), _repeated(0x80)
BLANK, ZERO = _repeated(ord(" ")), _repeated(ord("0"))
BEYOND_NINE = _repeated(0x80 - 10)
POWERS = np.array([10**count for count in range(WORD + 1)], dtype=np.uint64)
INSIDE = [
    np.array(
        [(1 << 8 * min(max(length - start, 0), WORD)) - 1 for length in range(MOST_WORDS * WORD)],
        dtype=np.uint64,
    )
    for start in range(0, MOST_WORDS * WORD, WORD)
]
"""For each word of a field, by the field's length: ones in the bytes that are in the field."""


class OtherFormError(DataError):
    """A line is not of the form, or a field is not as plain as it has to be."""


class Cut(NamedTuple):
    """One field of all lines."""

    words: list[Words]
    """Its text, with zeros behind its end."""
    length: Int64Array


def bytes_of_line(form: LineForm) -> int:
    """How far from the start of a line `cut` may look."""
    around = sum(len(field.before) + len(field.end) for field in form.fields) + len(form.last)
    return around + len(form.fields) * MOST_WORDS * WORD + 2 * WORD


def cut(content: npt.NDArray[np.uint8], starts: Int64Array, form: LineForm) -> list[Cut]:
    """The fields of the lines that start there; an error if any line is of another form.

    ``content`` is whole words, and holds `bytes_of_line` from each start on.
    """
    lines = _Lines(content, starts)
    fields = []
    for field in form.fields:
        lines.check(field.before)
        fields.append(lines.field(field))
    lines.check(form.last)
    if lines.odd.any():
        raise OtherFormError("a line is of another form")
    return fields


def are_numbers(field: Cut) -> bool:
    """Whether all are whole numbers without a sign or leading zeros."""
    has_zero = (field.words[0] & np.uint64(0xFF)) == ord("0")
    if ((field.length == 0) | (has_zero & (field.length > 1))).any():
        return False
    for word, inside in zip(field.words, INSIDE, strict=False):
        digits = word ^ (ZERO & inside.take(field.length))
        if (((digits + BEYOND_NINE) | digits) & HIGHEST_BITS).any():
            return False
    return True


def numbers_of(digits: Cut) -> Int64Array:
    """The numbers that a field of digits holds."""
    if digits.length.max(initial=0) > MOST_DIGITS:
        raise OtherFormError("a number is too long")
    numbers = np.zeros(len(digits.length), dtype=np.uint64)
    for place, word in enumerate(digits.words[: MOST_DIGITS // WORD]):
        count = np.clip(digits.length - place * WORD, 0, WORD)
        numbers = numbers * POWERS.take(count) + _number(word, count)
    return numbers.view(np.int64)


def _number(word: Words, count: Int64Array) -> Words:
    """The number that the first digits of a word are: neighbours are added up, three times."""
    # The last digit has to be in the highest byte; zeros before the first one do no harm.
    word = (word << (8 * (WORD - count)).view(np.uint64)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    word = (word * np.uint64(10 << 8 | 1)) >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    word = (word * np.uint64(100 << 16 | 1)) >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    return (word * np.uint64(10_000 << 32 | 1)) >> np.uint64(32)


class _Lines:
    """Lines, each read up to some place."""

    def __init__(self, content: npt.NDArray[np.uint8], starts: Int64Array) -> None:
        self._content = content.view("<u8")
        self._places = starts
        self.odd: Words = np.zeros(len(starts), dtype=np.uint64)
        """Not zero where a line is of another form."""

    def check(self, text: bytes) -> None:
        """See that all lines go on with a text, and go behind it."""
        for start, word in zip(range(0, len(text), WORD), self._words(), strict=False):
            part = text[start : start + WORD]
            word ^= np.uint64(int.from_bytes(part, "little"))
            self.odd |= word & np.uint64((1 << 8 * len(part)) - 1)
        self._places = self._places + len(text)

    def field(self, field: Field) -> Cut:
        """The text up to where a field ends, and go behind that."""
        words = []
        length: Words = np.zeros(len(self._places), dtype=np.uint64)
        is_open: Words | None = None
        for word in itertools.islice(self._words(), MOST_WORDS):
            ends = _is(word, field.end[0]) & HIGHEST_BITS
            # The highest bit of each byte below the first end: of all of them where there is none.
            inside = (ends - np.uint64(1)) & (ends ^ HIGHEST_BITS)
            if is_open is not None:
                inside *= is_open
            self.odd |= _oddities(word, field) & inside
            inside >>= np.uint64(7)
            words.append(word & (inside * np.uint64(0xFF)))
            is_open = inside >> np.uint64(56)
            inside *= ONES
            inside >>= np.uint64(56)
            length += inside
            if not is_open.any():
                break
        else:
            raise OtherFormError("a field is too long")
        if field.is_number:
            has_zero = (words[0] & np.uint64(0xFF)) == ord("0")
            self.odd |= (length == 0) | (has_zero & (length > 1))
        self._places = self._places + (length.view(np.int64) + 1)
        return Cut(words, length.view(np.int64))

    def _words(self) -> Iterator[Words]:
        """The words of each line from its place on, which lie across two of the content's."""
        place = self._places >> 3
        bits = ((self._places & 7) << 3).view(np.uint64)
        left = np.uint64(64) - bits
        low = self._content.take(place)
        while True:
            place = place + 1
            high = self._content.take(place)
            yield (low >> bits) | (high << left)  # NumPy shifts by 64 to zero
            low = high


def _is(word: Words, character: int) -> Words:
    """In its highest bit, of each byte whether it is a character, right up to the first that is."""
    differs = word ^ _repeated(character)
    return (differs - ONES) & ~differs


def _oddities(word: Words, field: Field) -> Words:
    """The same of what the field may not hold."""
    if field.is_number:
        digits = word ^ ZERO
        return (digits + BEYOND_NINE) | digits
    odd = (word - BLANK) | word  # control characters, and all beyond ASCII
    for character in field.banned:
        odd |= _is(word, character)
    return odd
