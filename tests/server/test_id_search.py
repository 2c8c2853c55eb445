"""Search by an index finds what looking at everything finds, in the same order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.data.ids import Ids
from cerp.server.search import IdSearch

LETTERS = st.text(alphabet="aAbİß\0 é\U0001f600", max_size=5)


def looked_through(ids: list[str], titles: list[str] | None, text: str, limit: int) -> list[int]:
    """The rule, one entry after the other: equal, then starting, then titles that contain."""
    wanted = text.strip().lower()
    found: list[list[int]] = [[], [], []]
    for code, own_id in enumerate(ids):
        names = [own_id.lower(), *([titles[code].lower()] if titles else [])]
        if wanted in names:
            found[0].append(code)
        elif any(name.startswith(wanted) for name in names):
            found[1].append(code)
        elif titles and wanted in names[1]:
            found[2].append(code)
    return [code for codes in found for code in codes][:limit]


@given(st.lists(LETTERS, min_size=1, max_size=12, unique=True), LETTERS, st.integers(1, 5))
def test_ids_are_found_as_by_looking_through_them(ids, text, limit):
    search = IdSearch(Ids(np.array(ids, dtype=object)))
    assert search.find(text, limit) == looked_through(ids, None, text, limit)


@given(st.lists(LETTERS, min_size=1, max_size=12), LETTERS, st.integers(1, 5))
def test_titles_are_found_as_by_looking_through_them(titles, text, limit):
    ids = [str(code) for code in range(len(titles))]
    search = IdSearch(Ids.range(len(titles)), titles)
    assert search.find(text, limit) == looked_through(ids, titles, text, limit)


def test_an_empty_text_finds_the_first():
    assert IdSearch(Ids.range(1000)).find(" ", 3) == [0, 1, 2]


def test_what_starts_with_the_text_comes_in_native_order():
    assert IdSearch(Ids(["b2", "a", "b10", "B1"])).find("b", 9) == [0, 2, 3]


@pytest.mark.parametrize("text", ["e\0f", "\0"])
def test_no_match_reaches_from_one_title_into_the_next(text: str):
    assert IdSearch(Ids.range(2), ["the", "fox"]).find(text, 9) == []
