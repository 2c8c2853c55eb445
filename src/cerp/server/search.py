"""Finding users and items by what someone types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from cerp.data.ids import Ids


class IdSearch:
    """Ids that start with a text, and titles that contain it, in whatever case.

    First the id or title that is the text, then those that start with it, then
    titles that contain it; each in native order. The page's model.js has the same rule.
    """

    def __init__(self, ids: Ids, titles: Sequence[str] | None = None) -> None:
        self._ids = [str(value).lower() for value in ids.values.tolist()]
        self._titles = [title.lower() for title in titles] if titles else self._ids

    def find(self, text: str, limit: int) -> list[int]:
        """Codes of at most ``limit`` matches."""
        return list(islice(self._matches(text.strip().lower()), limit))

    def _matches(self, text: str) -> Iterator[int]:
        later: list[list[int]] = [[], []]
        for code, (own_id, title) in enumerate(zip(self._ids, self._titles, strict=True)):
            if text in (own_id, title):
                yield code
            elif own_id.startswith(text) or title.startswith(text):
                later[0].append(code)
            elif self._titles is not self._ids and text in title:
                later[1].append(code)
        for codes in later:
            yield from codes
