"""Finding users and items by what someone types, without looking at all of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice

import numpy as np

from cerp.data.ids import Ids, Int64Array

SEPARATOR = "\0"
"""Between the titles in one long text; a match that reaches over it is none."""


class IdSearch:
    """Ids that start with a text, and titles that contain it, in whatever case.

    First the id or title that is the text, then those that start with it, then
    titles that contain it; each in native order. The page's model.js has the same rule.
    """

    def __init__(self, ids: Ids, titles: Sequence[str] | None = None) -> None:
        self._sorted = [_Sorted([str(value).lower() for value in ids.values.tolist()])]
        lowered = [title.lower() for title in titles or ()]
        if lowered:
            self._sorted.append(_Sorted(lowered))
        self._text = SEPARATOR.join(lowered)
        self._has_separators = self._text.count(SEPARATOR) >= max(1, len(lowered))
        self._starts = [0, *accumulate(len(title) + 1 for title in lowered)][: len(lowered)]

    def find(self, text: str, limit: int) -> list[int]:
        """Codes of at most ``limit`` matches."""
        wanted = text.strip().lower()
        found = self._first(limit, [names.equal(wanted) for names in self._sorted], set())
        starting = [names.starting(wanted) for names in self._sorted]
        found += self._first(limit - len(found), starting, set(found))
        if len(found) < limit:
            known = set(found)
            others = (code for code in self._containing(wanted) if code not in known)
            found += islice(others, limit - len(found))
        return found

    def _first(self, limit: int, groups: list[Int64Array], known: set[int]) -> list[int]:
        """The smallest codes of some groups that are not known yet."""
        enough = limit + len(known)
        smallest = [np.sort(_smallest(codes, enough)) for codes in groups]
        distinct = np.unique(np.concatenate(smallest)).tolist()
        return [code for code in distinct if code not in known][:limit]

    def _containing(self, text: str) -> Iterator[int]:
        """Titles that contain a text, each once."""
        if SEPARATOR in text and not self._has_separators:
            return  # each of the many would be looked at
        at = self._text.find(text) if self._starts else -1
        while at >= 0:
            code = bisect_right(self._starts, at) - 1
            following = self._starts[code + 1] if code + 1 < len(self._starts) else None
            end = len(self._text) if following is None else following - 1
            is_inside = at + len(text) <= end
            if is_inside:
                yield code
                if following is None:
                    return
            at = self._text.find(text, following if is_inside else at + 1)


class _Sorted:
    """Names in alphabetical order, with their codes."""

    def __init__(self, names: list[str]) -> None:
        order = sorted(range(len(names)), key=names.__getitem__)
        self.names = [names[code] for code in order]
        self.codes = np.array(order, dtype=np.int64)

    def equal(self, text: str) -> Int64Array:
        return self.codes[bisect_left(self.names, text) : bisect_right(self.names, text)]

    def starting(self, text: str) -> Int64Array:
        end = bisect_right(self.names, text, key=lambda name: name[: len(text)])
        return self.codes[bisect_left(self.names, text) : end]


def _smallest(codes: Int64Array, count: int) -> Int64Array:
    return codes if len(codes) <= count else np.partition(codes, count)[:count]
