"""Regular text a chunk at a time: the ids of the rows that begin there, and their times."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cerp.data.formats.columns import SIDES
from cerp.data.formats.flat_cutter import LINE_BREAK, Bytes, FlatForm, Scratch, cut_flat
from cerp.data.formats.line_cutter import WORD, Cut, Words, bytes_of_line, cut, numbers_of
from cerp.data.formats.line_form import LineForm
from cerp.data.ids import Int64Array

CHUNK_BYTES = 1 << 21
"""Of a file at a time: little enough to stay in the cache, and so much that threads, which take
turns between steps of NumPy, seldom wait for each other."""


@dataclass(frozen=True)
class Rows:
    """The rows of a chunk."""

    ids: Mapping[str, Sequence[Words]]
    """The words of each side's ids."""
    time: Int64Array | None
    is_flat: bool
    """Whether `flat_cutter` could cut them."""


class Chunks:
    """The chunks of a file, each cut by whichever thread asks for it.

    ``fields`` is the field that each role is, and ``flat`` None where that way is not worth a try.
    """

    def __init__(
        self, plain: Path, form: LineForm, fields: Mapping[str, int], flat: FlatForm | None
    ) -> None:
        self._plain, self._form, self._fields, self._flat = plain, form, fields, flat
        self._reach = bytes_of_line(form)
        self._of_thread = threading.local()

    def starts(self, first: int) -> range:
        """Where chunks begin, the first of them there."""
        return range(first, self._plain.stat().st_size, CHUNK_BYTES)

    def rows(self, start: int) -> Rows:
        """The rows that begin in a chunk of the file."""
        scratch = self._scratch()
        content = scratch.content
        end = self._fill(content, start)
        cuts: Mapping[int, Cut] | None = None
        if self._flat is not None and (lines := self._lines(content, end)):
            cuts = cut_flat(*lines, self._flat, set(self._fields.values()), scratch)
        is_flat = cuts is not None
        if cuts is None:
            behind = content[: min(CHUNK_BYTES, end - 1)] == LINE_BREAK
            cuts = dict(enumerate(cut(content, np.flatnonzero(behind) + 1, self._form)))
        time = numbers_of(cuts[self._fields["time"]]) if "time" in self._fields else None
        ids = {side: cuts[self._fields[side]].words for side in SIDES}
        return Rows(ids, time, is_flat)

    def _scratch(self) -> Scratch:
        """The thread's own: what another core has in its cache takes four times as long to fill."""
        if not hasattr(self._of_thread, "scratch"):
            room = 1 + CHUNK_BYTES + self._reach
            self._of_thread.scratch = Scratch(-(-room // WORD) * WORD)
        scratch: Scratch = self._of_thread.scratch
        return scratch

    def _fill(self, content: Bytes, start: int) -> int:
        """Read from one byte before a chunk on; gives where what was read ends."""
        room = 1 + CHUNK_BYTES + self._reach
        content[0] = LINE_BREAK
        before = min(start, 1)
        with self._plain.open("rb") as file:
            file.seek(start - before)
            end = 1 - before + file.readinto(content[1 - before : room - 1].data)
        content[end:] = 0
        if end < room - 1 and content[end - 1] != LINE_BREAK:
            content[end] = LINE_BREAK  # the last line of a file may lack it
        return end

    def _lines(self, content: Bytes, end: int) -> tuple[Bytes, int] | None:
        """What was read from the first line that begins in the chunk on, and the size of all such.

        None where there is none, or where one is longer than a line of the form.
        """
        last = min(CHUNK_BYTES, end - 1)
        behind = [
            start + np.flatnonzero(content[start : start + self._reach] == LINE_BREAK)[:1] + 1
            for start in (0, last)
        ]
        if any(len(place) == 0 for place in behind) or behind[0][0] > last:
            return None
        return content[behind[0][0] :], int(behind[1][0] - behind[0][0])
