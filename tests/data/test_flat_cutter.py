"""Lines cut where their separators are: as `line_cutter` cuts them, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.data.formats.flat_cutter import Bytes, FlatForm, Scratch, cut_flat
from cerp.data.formats.line_cutter import Cut, OtherFormError, bytes_of_line, cut
from cerp.data.formats.line_form import LineForm, delimited_form, json_form

FORMS = {
    "plain": delimited_form(b"a,b,7\n", ",", 3, time=2),
    "quoted": delimited_form(b'"a",b,"c"\r\n', ",", 3),
    "colons": delimited_form(b"a::b::c\n", "::", 3),
    "objects": (json_form(b'{"user": "a", "item": "b", "time": 7}\n') or (None,))[0],
}


def content_of(text: bytes, form: LineForm) -> Bytes:
    content = np.zeros(-(-(len(text) + bytes_of_line(form)) // 8) * 8, dtype=np.uint8)
    content[: len(text)] = np.frombuffer(text, dtype=np.uint8)
    return content


def both(text: bytes, form: LineForm) -> tuple[object, object]:
    """By the separators and line by line, the fields as text; None where a way does not tell."""
    content = content_of(text, form)
    flat = FlatForm.of(form)
    assert flat is not None
    fields = set(range(len(form.fields)))
    found = cut_flat(content, len(text), flat, fields, Scratch(len(content)))
    starts = np.flatnonzero(np.frombuffer(b"\n" + text[:-1], dtype=np.uint8) == ord("\n"))
    try:
        expected = dict(enumerate(cut(content, starts, form)))
    except OtherFormError:
        expected = None
    return texts_of(found), texts_of(expected)


def texts_of(fields: dict[int, Cut] | None) -> object:
    if fields is None:
        return None
    told = {}
    for number, (words, length) in fields.items():
        texts = [row.astype("<u8").tobytes() for row in np.stack(words, axis=1)]
        assert [len(text.rstrip(b"\0")) for text in texts] == length.tolist()
        # The last byte tells that an id goes no further (`known_ids`).
        assert all(text[-1] == 0 for text in texts)
        told[number] = [text.rstrip(b"\0") for text in texts]
    return told


def filled(form: LineForm, fields: list[str]) -> bytes:
    text = b""
    for field, value in zip(form.fields, fields, strict=True):
        text += field.before + value.encode("latin-1") + field.end
    return text + form.last


VALUES = st.text("aZ-. ", max_size=18) | st.integers(0, 10**17).map(str)
ODD = st.text('a1,:"\\\té\x7f\r}', max_size=4) | st.sampled_from(
    ["x" * 47, "x" * 48, "007", "8" * 8]
)


@given(
    st.sampled_from(sorted(FORMS)),
    st.lists(st.tuples(VALUES, VALUES, st.integers(0, 10**12).map(str)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 2), VALUES | ODD), max_size=2),
)
def test_what_separators_tell_is_what_the_lines_hold(
    name: str, rows: list[tuple[str, str, str]], changes: list[tuple[int, int, str]]
):
    form = FORMS[name]
    assert form is not None
    fields = [list(row) for row in rows]
    for row, column, value in changes:
        fields[row % len(fields)][column] = value
    found, expected = both(b"".join(filled(form, row) for row in fields), form)
    if found is not None:
        assert found == expected
    if not changes:
        assert found is not None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain", b"a,b,7\na,b\nc,a,b,7\n"),  # as many separators as there should be in all
        ("plain", b"a,b,7\n\na,b,7,a,b,7\n"),
        ("plain", b"a,b,07\n"),
        ("plain", b"a,b,\n"),
        ("plain", b'a,"b",7\n'),
        ("plain", b"a\0,b,7\n"),
        ("plain", b"\xe9,b,7\n"),
        ("quoted", b'",b,"c"\r\n'),
        ("quoted", b'"a",b,"c"\n'),
        ("quoted", b'"a""b",b,"c"\r\n'),
        ("quoted", b'x"a",b,"c"\r\n'),
        ("colons", b"a:b::::c\n"),
        ("objects", b'{"user": "a", "iten": "b", "time": 7}\n'),
        ("objects", b'{"user": "a", "item": "b", "time": 7.5}\n'),
        ("objects", b'{"user": "a\\"", "item": "b", "time": 7}\n'),
        # So long that what is behind its separators is not there any more.
        ("objects", b'{"user": "' + b"a" * 300 + b'", ,}\n'),
    ],
)
def test_lines_of_another_form_are_not_cut(name: str, text: bytes):
    form = FORMS[name]
    assert form is not None
    assert both(text, form) == (None, None)


def test_a_separator_within_quotes_is_for_the_other_way():
    form = FORMS["quoted"]
    assert form is not None
    found, expected = both(b'"a,b",c,"d"\r\n', form)
    assert found is None
    assert expected == {0: [b"a,b"], 1: [b"c"], 2: [b"d"]}


def test_fields_that_nobody_asks_for_are_not_made():
    form = FORMS["plain"]
    assert form is not None
    text = b"a,b,7\nc,d,8\n"
    content = content_of(text, form)
    flat = FlatForm.of(form)
    assert flat is not None
    found = cut_flat(content, len(text), flat, {1}, Scratch(len(content)))
    assert found is not None
    assert sorted(found) == [1, 2]  # what has to be a number is looked at


def test_lines_without_a_separator_of_their_own_are_not_for_this_way():
    form = json_form(b'{"a": "b", "c": "d"}\n')
    assert form is not None
    assert FlatForm.of(form[0]) is not None
    odd = delimited_form(b"axb\n", "x", 2)
    assert odd is not None
    assert FlatForm.of(odd) is None


def test_a_line_with_a_separator_too_many_is_not_made_up_for_by_one_with_one_too_few():
    assert both(b"a,b,c\nd\n", delimited_form(b"a,b\n", ",", 2)) == (None, None)
