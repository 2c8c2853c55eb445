"""Ids looked up among those of the first rows are numbered as all rows by a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.data.formats import known_ids
from cerp.data.formats.known_ids import KnownIds
from cerp.data.formats.line_cutter import OtherFormError, Words

IDS = st.text("ab", max_size=3) | st.sampled_from(["lettersa", "lettersandmore", "letters" * 3])
PARTS = st.lists(st.lists(IDS, max_size=8), max_size=4)


def words_of(ids: list[str]) -> list[Words]:
    size = max((len(text) for text in ids), default=0) // 8 * 8 + 8
    texts = np.array([text.encode() for text in ids], dtype=f"S{size}")
    words = np.frombuffer(texts.tobytes(), dtype="<u8").reshape(len(ids), size // 8)
    return [words[:, place].astype(np.uint64) for place in range(size // 8)]


@given(
    first=PARTS, begin=st.lists(IDS, min_size=1, max_size=8), later=PARTS, bits=st.integers(0, 3)
)
def test_ids_are_numbered_by_first_appearance(
    first: list[list[str]], begin: list[str], later: list[list[str]], bits: int
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_ids, "BITS_BEYOND", bits)  # with few, many ids share a slot
        known = KnownIds([words_of(ids) for ids in [begin, *first]])
        found = known.with_later([known.look_up(words_of(ids)) for ids in later])
    rows = [text for ids in [begin, *first, *later] for text in ids]
    seen: dict[str, int] = {}
    expected = [seen.setdefault(text, len(seen)) for text in rows]
    assert [len(codes) for codes in found.codes] == [len(ids) for ids in [begin, *first, *later]]
    assert np.concatenate(found.codes).tolist() == expected
    assert found.firsts.tolist() == [rows.index(text) for text in seen]
    texts = np.stack(found.words, axis=1).astype("<u8").view(f"S{8 * len(found.words)}")
    assert [text.decode() for text in texts.ravel().tolist()] == list(seen)


@pytest.mark.parametrize("later", ["lettersandmore", "lettersa"])
def test_new_ids_of_one_hash_are_refused(later: str, monkeypatch: pytest.MonkeyPatch):
    # Hashes that see the first eight letters only.
    monkeypatch.setattr(known_ids, "hashes_of", lambda words: words[0].copy())
    known = KnownIds([words_of(["x"])])
    rows = [known.look_up(words_of([text])) for text in (later, "lettersb", "lettersaxe")]
    with pytest.raises(OtherFormError, match="one hash"):
        known.with_later(rows)
