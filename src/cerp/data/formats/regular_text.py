"""Text whose lines are all of one form, cut by NumPy on all cores.

Most tables of interactions are that plain, and take two thirds of the time that a database takes
over them. Whatever is not, from a quote within a field to a missing id, is left to the other
readers, which also say what is wrong with it: what they would read is read here, or nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.cores import shared_out
from cerp.data.formats.columns import SIDES, Origin, Wanted
from cerp.data.formats.hash_codes import hashes_of, numbered
from cerp.data.formats.line_cutter import (
    MOST_DIGITS,
    WORD,
    OtherFormError,
    Words,
    bytes_of_line,
    cut,
    numbers_of,
)
from cerp.data.formats.line_form import LineForm
from cerp.data.formats.times import MILLISECONDS_RANGE, SECONDS_RANGE
from cerp.data.formats.vocabulary import Vocabulary, coded_in_native_order
from cerp.data.gathering import Gathering
from cerp.data.ids import Ids, Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.sorting import STRETCH, counts_of
from cerp.data.source_facts import SourceFacts
from cerp.errors import DataError

UNDERSTOOD = {"user", "item", "rating", "time", "ids"}
"""What a caller may ask for; a rating is not read unless it decides which rows are kept."""
CHUNK_BYTES = 1 << 21
"""Of a file at a time: little enough to stay in the cache, and so much that threads, which take
turns between steps of NumPy, seldom wait for each other."""
MOST_HELD = 1 << 26
"""Words of ids, half a gigabyte: files with more are left to DuckDB, which holds less at a time."""
MOST_THREADS = 4
"""Each holds Python's lock for a moment at every step: many would do little but wait for it."""
LINE_BREAK = ord("\n")


@dataclass(frozen=True)
class RegularText:
    """A file whose lines may all be of one form."""

    plain: Path
    """Uncompressed UTF-8."""
    start: int
    """Where in the file the first row begins."""
    form: LineForm
    fields: Mapping[str, int]
    """Role -> the field that it is: user, item and, where there is such, time."""
    is_text: bool
    """Whether the source is without types, so that ids of digits are integers where all are."""

    def read(self, wanted: Wanted, origin: Origin) -> Interactions | None:
        """The interactions in it; None where anything is odd."""
        if not wanted.given() <= UNDERSTOOD:
            return None
        try:
            rows = self._all_rows()
            time = _times(rows)
            code = partial(self._coded, rows, origin=origin, as_strings=wanted.ids == "string")
            (users, user), (items, item) = shared_out(code, SIDES)
        except DataError:
            return None
        gathering = _gathered(user, item, time, len(users), len(items))
        data = Interactions.from_gathered(gathering, users=users, items=items)
        return replace(data, source=SourceFacts(origin.name, len(user)))

    def _all_rows(self) -> list[_Rows]:
        starts = range(self.start, self.plain.stat().st_size, CHUNK_BYTES)
        first = self._rows(self.start)  # by itself: most files that are odd are so at once
        held = sum(len(word) for words in first.ids.values() for word in words)
        if held * len(starts) > MOST_HELD:
            raise OtherFormError("there are too many rows")
        return [first, *shared_out(self._rows, starts[1:], most=MOST_THREADS)]

    def _rows(self, start: int) -> _Rows:
        """The rows that begin in a chunk of the file."""
        cuts = cut(*self._chunk(start), self.form)
        time = numbers_of(cuts[self.fields["time"]]) if "time" in self.fields else None
        ids = {side: cuts[self.fields[side]].words for side in SIDES}
        return _Rows(ids, {side: hashes_of(words) for side, words in ids.items()}, time)

    def _chunk(self, start: int) -> tuple[npt.NDArray[np.uint8], Int64Array]:
        """Bytes of the file from one before a chunk on, and where in them its rows begin."""
        room = 1 + CHUNK_BYTES + bytes_of_line(self.form)
        content = np.empty(-(-room // WORD) * WORD, dtype=np.uint8)
        content[0] = LINE_BREAK
        before = min(start, 1)
        with self.plain.open("rb") as file:
            file.seek(start - before)
            end = 1 - before + file.readinto(content[1 - before : room - 1].data)
        content[end:] = 0
        if end < room - 1 and content[end - 1] != LINE_BREAK:
            content[end] = LINE_BREAK  # the last line of a file may lack it
        behind = content[: min(CHUNK_BYTES, end - 1)] == LINE_BREAK
        return content, np.flatnonzero(behind) + 1

    def _coded(
        self, rows: Sequence[_Rows], side: str, *, origin: Origin, as_strings: bool
    ) -> tuple[Ids, Int32Array]:
        """The ids of one side, and the rows as codes."""
        codes, firsts = numbered(np.concatenate([part.hashes[side] for part in rows]))
        ends = np.cumsum([len(part.hashes[side]) for part in rows])
        parts = [part.ids[side] for part in rows]
        new_in_parts = np.split(firsts, np.searchsorted(firsts, ends[:-1]))
        distinct = _joined(
            [
                [word[new - end + len(word)] for word in words]
                for words, new, end in zip(parts, new_in_parts, ends, strict=True)
            ]
        )

        def check(part: tuple[Sequence[Words], Int32Array]) -> None:
            words, own = part
            # Of words beyond those of a part nothing is asked: the last of a part ends in a zero,
            # where an id that goes on has a letter.
            for word, values in zip(words, distinct, strict=False):
                if (values.take(own) != word).any():
                    raise OtherFormError("two ids have one hash")

        shared_out(check, zip(parts, np.split(codes, ends[:-1]), strict=True))
        texts = np.stack(distinct, axis=1).astype("<u8").view(f"S{WORD * len(distinct)}").ravel()
        vocabulary = Vocabulary(self._values(texts, side), firsts)
        return coded_in_native_order(
            vocabulary, codes, side, origin, is_text=self.is_text, as_strings=as_strings
        )

    def _values(self, texts: npt.NDArray[np.bytes_], side: str) -> npt.NDArray[Any]:
        """Distinct ids as a vocabulary has them."""
        if self.is_text or not self.form.fields[self.fields[side]].is_number:
            return texts.astype(str).astype(object)
        if texts.itemsize > MOST_DIGITS:
            raise OtherFormError("a number is too long")
        return texts.astype(np.int64)


@dataclass(frozen=True)
class _Rows:
    """Some rows of a file."""

    ids: Mapping[str, Sequence[Words]]
    """The words of each side's ids; as many as the longest of these rows has."""
    hashes: Mapping[str, Words]
    time: Int64Array | None


def _joined(parts: Sequence[Sequence[Words]]) -> list[Words]:
    """Words of all parts; where some have fewer words than others, zeros stand for the rest."""
    count = max(map(len, parts))
    padded = ([*part, *[np.zeros_like(part[0])] * (count - len(part))] for part in parts)
    return [np.concatenate(words) for words in zip(*padded, strict=True)]


def _times(rows: Sequence[_Rows]) -> Int64Array | None:
    """The times of all rows, where there are such."""
    parts = [part.time for part in rows if part.time is not None]
    if not parts:
        return None
    time = np.concatenate(parts)
    if time.min() <= SECONDS_RANGE[1] and time.max() >= MILLISECONDS_RANGE[0]:
        raise OtherFormError("the times may be in two units")
    return time


def _gathered(
    user: Int32Array, item: Int32Array, time: Int64Array | None, users: int, items: int
) -> Gathering:
    gathering = Gathering(
        users,
        items,
        len(user),
        lambda: counts_of(user, users),
        times=None if time is None else (int(time.min()), int(time.max())),
    )
    for start in range(0, len(user), STRETCH):
        part = slice(start, start + STRETCH)
        gathering.add(user[part], item[part], None if time is None else time[part])
    return gathering
