"""Text whose lines are all of one form, cut by NumPy on all cores.

Most tables of interactions are that plain, and take a third of the time that a database takes over
them. Whatever is not, from a quote within a field to a missing id, is left to the other readers,
which also say what is wrong with it: what they would read is read here, or nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.cores import shared_out
from cerp.data.formats.columns import SIDES, Origin, Wanted
from cerp.data.formats.flat_cutter import LINE_BREAK, FlatForm
from cerp.data.formats.known_ids import Apart, KnownIds, LookedUp
from cerp.data.formats.line_cutter import (
    MOST_DIGITS,
    Cut,
    OtherFormError,
    Words,
    are_numbers,
    numbers_of,
)
from cerp.data.formats.line_form import LineForm
from cerp.data.formats.regular_chunks import Chunks
from cerp.data.formats.times import MILLISECONDS_RANGE, SECONDS_RANGE
from cerp.data.formats.vocabulary import Vocabulary, native_order
from cerp.data.gathering import Gathering
from cerp.data.ids import Ids, Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.sorting import counts_of
from cerp.data.source_facts import SourceFacts
from cerp.errors import DataError

UNDERSTOOD = {"user", "item", "rating", "time", "ids"}
"""What a caller may ask for; a rating is not read unless it decides which rows are kept."""
FIRST_CHUNKS = 24
"""Whose ids are told apart before the other chunks are read: more of them hold more of the ids, and
fewer are sooner done with."""
MOST_HELD = 1 << 26
"""Words of ids, half a gigabyte: files with more are left to DuckDB, which holds less at a time."""
MOST_THREADS = 4
"""Each holds Python's lock for a moment at every step: many would do little but wait for it."""


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
            as_strings = wanted.ids == "string"
            integers = {side: self._integers(rows, side, as_strings) for side in SIDES}
            order = partial(self._ordered, rows, integers, origin=origin, as_strings=as_strings)
            users, items, gathering = _gathered_in_order(
                rows, order, is_likely_so=all(values is None for values in integers.values())
            )
        except DataError:
            return None
        data = Interactions.from_gathered(gathering, users=users, items=items)
        return replace(data, source=SourceFacts(origin.name, rows.count))

    def _all_rows(self) -> _AllRows:
        chunks = Chunks(self.plain, self.form, self.fields, FlatForm.of(self.form))
        starts = chunks.starts(self.start)
        first = chunks.rows(self.start)  # by itself: most files that are odd are so at once
        held = sum(len(word) for words in first.ids.values() for word in words)
        if held * len(starts) > MOST_HELD:
            raise OtherFormError("there are too many rows")
        if not first.is_flat:
            chunks = Chunks(self.plain, self.form, self.fields, None)
        begin = [first, *shared_out(chunks.rows, starts[1:FIRST_CHUNKS], most=MOST_THREADS)]
        del first
        times = [rows.time for rows in begin]
        words = {side: [rows.ids[side] for rows in begin] for side in SIDES}
        del begin
        known = dict(zip(SIDES, shared_out(KnownIds, map(words.pop, SIDES)), strict=True))

        def later(start: int) -> tuple[dict[str, LookedUp], Int64Array | None]:
            rows = chunks.rows(start)
            return {side: known[side].look_up(words) for side, words in rows.ids.items()}, rows.time

        rest = shared_out(later, starts[FIRST_CHUNKS:], most=MOST_THREADS)
        of_side = {side: [rows[side] for rows, _ in rest] for side in SIDES}
        told = shared_out(lambda side: known[side].with_later(of_side[side]), SIDES)
        times += [time for _, time in rest]
        return _AllRows(
            dict(zip(SIDES, told, strict=True)), [time for time in times if time is not None]
        )

    def _integers(self, rows: _AllRows, side: str, as_strings: bool) -> Int64Array | None:
        """The distinct ids of one side, where they are integers."""
        if self.is_text and as_strings:
            return None
        if not self.is_text and not self.form.fields[self.fields[side]].is_number:
            return None
        words = rows.ids[side].words
        if self.is_text and not are_numbers(_cut_of([word[:1] for word in words])):
            return None
        digits = _cut_of(words)
        if self.is_text and (digits.length.max() > MOST_DIGITS or not are_numbers(digits)):
            return None
        return numbers_of(digits)

    def _ordered(
        self,
        rows: _AllRows,
        integers: Mapping[str, Int64Array | None],
        side: str,
        *,
        origin: Origin,
        as_strings: bool,
    ) -> tuple[Ids, Int32Array]:
        """The ids of one side in native order, and the place there of each number."""
        told, values = rows.ids[side], integers[side]
        vocabulary = Vocabulary(_texts(told.words) if values is None else values, told.firsts)
        is_text = self.is_text and values is None
        return native_order(vocabulary, side, origin, is_text=is_text, as_strings=as_strings)


@dataclass(frozen=True)
class _AllRows:
    """The rows of a file, some after the other."""

    ids: Mapping[str, Apart]
    """Of each side."""
    times: Sequence[Int64Array]
    """None, or as many as there are parts of the codes."""

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.ids[SIDES[0]].codes))


def _cut_of(words: Sequence[Words]) -> Cut:
    """The words of a field with the length of the text in them."""
    letters = np.stack(words, axis=1).view(np.uint8)
    return Cut(list(words), np.count_nonzero(letters, axis=1))


def _texts(words: Sequence[Words]) -> npt.NDArray[Any]:
    """Words as strings."""
    ends = np.full(len(words[0]), LINE_BREAK, dtype=np.uint64)
    together = np.stack([*words, ends], axis=1).astype("<u8").tobytes()
    # All at once: a string for each from an array of bytes takes twice the time.
    texts = together.translate(None, b"\0").decode("ascii").split(chr(LINE_BREAK))
    return np.array(texts[:-1], dtype=object)


def _gathered_in_order(
    rows: _AllRows, order: Callable[[str], tuple[Ids, Int32Array]], *, is_likely_so: bool
) -> tuple[Ids, Ids, Gathering]:
    """The ids of both sides in native order, and all rows.

    ``is_likely_so`` says that the numbers of the ids are likely their places in native order.
    """
    if is_likely_so:
        # Sorting leaves Python's lock alone, which makes strings meanwhile.
        gathering = _gathered(rows, {})
        work: list[Callable[[], Any]] = [gathering.sort, *(partial(order, side) for side in SIDES)]
        _, *ordered = shared_out(lambda part: part(), work)
    else:
        ordered = shared_out(order, SIDES)
    (users, _), (items, _) = ordered
    places = {
        side: place
        for side, (_, place) in zip(SIDES, ordered, strict=True)
        if not np.array_equal(place, np.arange(len(place)))
    }
    if places or not is_likely_so:
        gathering = _gathered(rows, places)
    return users, items, gathering


def _gathered(rows: _AllRows, places: Mapping[str, Int32Array]) -> Gathering:
    """All rows; numbers become places where such are given."""
    sides = [rows.ids[side].codes for side in SIDES]
    sizes = []
    for number, side in enumerate(SIDES):
        sizes.append(len(rows.ids[side].firsts))
        if side in places:
            sides[number] = [places[side].take(codes) for codes in sides[number]]
    users, items = sides
    num_users, num_items = sizes
    gathering = Gathering(
        num_users,
        num_items,
        rows.count,
        lambda: counts_of(np.concatenate(users), num_users),
        times=_span(rows.times),
    )
    for number, (user, item) in enumerate(zip(users, items, strict=True)):
        gathering.add(user, item, rows.times[number] if rows.times else None)
    return gathering


def _span(times: Sequence[Int64Array]) -> tuple[int, int] | None:
    """The least and the greatest time, where there are such."""
    parts = [time for time in times if len(time)]
    if not parts:
        return None
    least, most = min(int(time.min()) for time in parts), max(int(time.max()) for time in parts)
    if least <= SECONDS_RANGE[1] and most >= MILLISECONDS_RANGE[0]:
        raise OtherFormError("the times may be in two units")
    return least, most
