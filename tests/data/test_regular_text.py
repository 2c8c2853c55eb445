"""Regular files that are cut by NumPy: what is read, or refused, is what the other readers say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.data.formats import json_lines, known_ids, regular_chunks, regular_text
from cerp.data.formats.hash_codes import hashes_of, numbered
from cerp.data.formats.line_cutter import bytes_of_line, cut, numbers_of
from cerp.data.formats.line_form import Field, LineForm, delimited_form, json_form
from cerp.errors import MissingExtra
from ways_of_reading import told, without_cutting

PLAIN_IDS = st.text("aB7-. '", min_size=1, max_size=18).filter(str.strip)
ODD_IDS = st.one_of(
    st.text('a1 "\\,;\té\n\r#', max_size=5),
    st.sampled_from(["", "7", "007", "+7", "-7", "1e3", "9" * 16, "9" * 17, "9" * 30, "x" * 48]),
)
NUMBERS = st.integers(0, 2**40).map(str)
TIMES = st.one_of(
    st.integers(0, 10**16).map(str),
    st.sampled_from(["1000000000", "1000000000000", "007", "1.5", "2020-01-01", "", "soon"]),
)


def both(path: Path, **options: Any) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Cut where it is regular, in chunks of a few lines, and not cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regular_chunks, "CHUNK_BYTES", 64)
        patch.setattr(regular_text, "FIRST_CHUNKS", 2)
        first = told(path, **options)
    with without_cutting():
        return first, told(path, **options)


# Tables and JSON lines, regular but for something perhaps


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Delimited text that is regular, but for a field or a line perhaps."""
    delimiter = draw(st.sampled_from([",", "\t", ";", "|", "::", " "]))
    quote = draw(st.sampled_from(["", '"'])) if delimiter != "::" else ""
    kinds = [draw(st.sampled_from([PLAIN_IDS, NUMBERS])) for _ in range(2)]
    rows = draw(st.lists(st.tuples(*kinds, PLAIN_IDS, NUMBERS), min_size=2, max_size=20))
    fields = [[f"{quote}{field}{quote}" for field in row[:3]] + [row[3]] for row in rows]
    for row, column, odd in draw(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3), ODD_IDS | TIMES), max_size=1)
    ):
        fields[row % len(fields)][column] = odd
    header = [["user", "item", "shop", "time"]] * draw(st.booleans())
    lines = [delimiter.join(row) for row in [*header, *fields]]
    if draw(st.integers(0, 4)) == 0:
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(["", " ", "a", '"'])))
    line_break = draw(st.sampled_from(["\n", "\r\n"]))
    ending = draw(st.sampled_from(["", line_break, line_break, "\n", 2 * line_break]))
    return (line_break.join(lines) + ending).encode()


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """JSON lines that are regular, but for a value or a line perhaps."""
    kinds = [draw(st.sampled_from([PLAIN_IDS, NUMBERS.map(int)])) for _ in range(2)]
    rows = draw(st.lists(st.tuples(*kinds, PLAIN_IDS, NUMBERS.map(int)), min_size=2, max_size=20))
    names = draw(st.permutations(["user", "item", "shop", "time"]))
    records = [dict(zip(["user", "item", "shop", "time"], row, strict=True)) for row in rows]
    records = [{name: record[name] for name in names} for record in records]
    odd = ODD_IDS | TIMES | st.sampled_from([None, True, 1.0, -1, 10**15, 10**16, 10**20, [1]])
    for row, name, value in draw(
        st.lists(st.tuples(st.integers(0, 30), st.sampled_from([*names, "Item"]), odd), max_size=1)
    ):
        records[row % len(records)][name] = value
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    lines = [json.dumps(record, separators=separators) for record in records]
    if draw(st.integers(0, 4)) == 0:
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(["", " ", "{}", "3"])))
    line_break = draw(st.sampled_from(["\n", "\r\n"]))
    return (line_break.join(lines) + draw(st.sampled_from(["", line_break]))).encode()


@given(
    st.tuples(st.just("a.csv"), tables()) | st.tuples(st.just("a.jsonl"), objects()),
    st.sampled_from([{}, {"time": False}, {"ids": "string"}]),
)
@settings(max_examples=60, deadline=None)
def test_what_is_cut_is_what_the_other_readers_say(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[str, bytes], options: dict[str, Any]
):
    name, content = file
    path = tmp_path_factory.mktemp("regular") / name
    path.write_bytes(content)
    first, second = both(path, **options)
    assert first == second


# What is cut, and what is not

ROWS = [("ann", "x", 5, 1_000_000_007), ("bob", "a longer id than sixteen", 4, 1_000_000_005)]
ROWS += [("ann", "x", 3, 1_000_000_001), ("cy", "x", 1, 1_000_000_009)]
EXPECTED = (
    ["ann", "bob", "cy"],
    ["x", "a longer id than sixteen"],
    [0, 1, 2],
    [0, 1, 0],
    [1_000_000_001, 1_000_000_005, 1_000_000_009],
)


def as_table(delimiter: str = ",", quote: str = "", line_break: str = "\n") -> str:
    rows = [(f"{quote}{user}{quote}", f"{quote}{item}{quote}", *rest) for user, item, *rest in ROWS]
    lines = [("user", "item", "rating", "time"), *rows]
    return "".join(delimiter.join(map(str, line)) + line_break for line in lines)


def as_json(**options: Any) -> str:
    records = [dict(zip(("user", "item", "rating", "time"), row, strict=True)) for row in ROWS]
    return "".join(json.dumps(record, **options) + "\n" for record in records)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", as_table()),
        ("a.csv", as_table(quote='"')),
        ("a.csv", as_table(line_break="\r\n")),
        ("a.csv", as_table().rstrip()),
        ("a.csv", as_table().partition("\n")[2]),
        ("a.tsv", as_table("\t")),
        ("a.dat", as_table("::")),
        ("a.inter", as_table("\t").replace("user\titem", "user_id:token\titem_id:token", 1)),
        ("a.jsonl", as_json()),
        ("a.jsonl", as_json(separators=(",", ":"))),
        ("a.jsonl", as_json().rstrip()),
    ],
)
def test_what_is_regular_needs_no_duckdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    (tmp_path / name).write_bytes(text.encode())
    assert told(tmp_path / name)[:5] == EXPECTED


def test_integers_of_json_are_integers_and_its_texts_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    lines = '{"user": 10, "item": "2"}\n{"user": 9, "item": "1"}\n'
    (tmp_path / "a.jsonl").write_text(lines)
    assert told(tmp_path / "a.jsonl")[:4] == ([9, 10], ["2", "1"], [0, 1], [1, 0])


@pytest.mark.parametrize(
    ("patched", "value"),
    [("hash_codes.SPREADING", (np.uint64(0), np.uint64(0))), ("regular_text.MOST_HELD", 3)],
    ids=["shared hashes", "many rows"],
)
def test_what_is_not_for_cutting_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patched: str, value: object
):
    path = tmp_path / "a.csv"
    path.write_text(as_table())
    module, _, name = patched.partition(".")
    monkeypatch.setattr(f"cerp.data.formats.{module}.{name}", value)
    assert told(path)[:5] == EXPECTED
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert told(path)[0] is MissingExtra


def test_an_id_that_is_the_beginning_of_another_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Hashes that see the first eight letters only.
    monkeypatch.setattr(known_ids, "hashes_of", lambda words: words[0].copy())
    path = tmp_path / "a.csv"
    path.write_text("user,item\n" + "lettersandmore,x\n" * 10 + "lettersa,y\n" * 10)
    cut_or_not, not_cut = both(path)
    assert cut_or_not == not_cut
    assert not_cut[0] == ["lettersandmore", "lettersa"]


TIMED = "user,item,time\nann,x,1000000001\nbob,y,1000000002\n"
SHOPS = "user,item,shop\nann,x,a b\nbob,y,c\n"
QUOTED = TIMED.replace("bob", '"bob"').replace("ann", '"ann"')
OBJECTS = '{"user": 1, "item": "x", "time": 5}\n{"user": 2, "item": "y", "time": 6}\n'
WITH_DAYS = OBJECTS.replace("5", '"2020-01-05"').replace("6", '"2020-01-06"')


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.csv", TIMED, "cy,z,\n"),
        ("a.csv", TIMED, "cy,z,007\n"),
        ("a.csv", TIMED.replace("100", 9 * "100"), ""),
        ("a.csv", TIMED, "cy,z,1000000000003\n"),
        ("a.csv", TIMED, "cy,z,1.5\n"),
        ("a.csv", TIMED, "c" + 50 * "y" + ",z,3\n"),
        ("a.csv", TIMED, "cy\n"),
        ("a.csv", SHOPS, 'c"y,z,d\n'),
        ("a.csv", SHOPS, "cy,z,d,3\n"),
        ("a.csv", SHOPS, "cy,z,d\r\n"),
        ("a.csv", SHOPS, "cy,é,d\n"),
        ("a.csv", QUOTED, "cy,z,3\n"),
        ("a.csv", QUOTED, '"c""y",z,3\n'),
        ("a.csv", QUOTED, '"cy";z,3\n'),
        ("a.csv", TIMED.replace("\n", "\r\n"), "cy,z,3\ra\n"),
        ("a.dat", SHOPS.replace(",", "::"), "cy:z::d::\n"),
        ("a.dat", SHOPS.replace(",", "::"), "cy::z::d:\n"),
        ("a.jsonl", OBJECTS, '{"user": 3, "Item": "z", "time": 7}\n'),
        ("a.jsonl", OBJECTS, '{"user": 3, "item": "\\t", "time": 7}\n'),
        ("a.jsonl", OBJECTS, '{"user": 3, "item": "z", "time": 07}\n'),
        ("a.jsonl", OBJECTS, '{"user": 3, "item": "z", "time": 7},\n'),
        ("a.jsonl", OBJECTS, '{"user": 3, "item": "z"}\n'),
        ("a.jsonl", OBJECTS, '{"user": ' + 30 * "3" + ', "item": "z", "time": 7}\n'),
        ("a.jsonl", '{"user": 3, "item": "z"}\n', OBJECTS),
        ("a.jsonl", WITH_DAYS, ""),
    ],
)
def test_a_line_of_another_form_is_for_the_other_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, line: str
):
    monkeypatch.setattr(json_lines, "LINES_FOR_NAMES", 2)  # which are parsed at once
    path = tmp_path / name
    path.write_bytes((text + line).encode())
    first, second = both(path)
    assert first == second
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert told(path)[0] is MissingExtra


# Parts


@given(st.lists(st.integers(0, 10**16 - 1), min_size=1))
def test_numbers_are_read_off_their_digits(numbers: list[int]):
    text = "".join(f"{number}\n" for number in numbers).encode()
    form = LineForm((Field(b"", b"\n", b"", is_number=True),), b"")
    content = np.zeros(-(-(len(text) + bytes_of_line(form)) // 8) * 8, dtype=np.uint8)
    content[: len(text)] = np.frombuffer(text, dtype=np.uint8)
    starts = np.cumsum([0, *(len(str(number)) + 1 for number in numbers[:-1])])
    (digits,) = cut(content, starts, form)
    assert numbers_of(digits).tolist() == numbers


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2**63, 2**64 - 1]))))
def test_rows_of_words_are_numbered_by_first_appearance(rows: list[tuple[int, int]]):
    words = [np.array([row[k] for row in rows], dtype=np.uint64) for k in range(2)]
    seen: dict[tuple[int, int], int] = {}
    expected = [seen.setdefault(row, len(seen)) for row in rows]
    codes, firsts = numbered(hashes_of(words))
    assert codes.tolist() == expected
    assert firsts.tolist() == [rows.index(row) for row in seen]
    behind = np.zeros(len(rows), dtype=np.uint64)
    assert np.array_equal(hashes_of([*words, behind]), hashes_of(words))


@pytest.mark.parametrize(
    "line",
    [
        b"a,b",  # without a line break it may go on
        b"a,b,c\n",
        b'a,b"c\n',
        b'"a,c",b\n',
        b'"a"",b\n',
        b'" a" ,b\n',
        b"a,b\r\r\n",
    ],
)
def test_a_first_line_that_is_not_plain_has_no_form(line: bytes):
    assert delimited_form(b'a,"b"\n', ",", 2) is not None
    assert delimited_form(line, ",", 2) is None


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"3\n",
        b'{"a": 1.5}\n',
        b'{"a": -1}\n',
        b'{"a": 01}\n',
        b'{"a": null}\n',
        b'{"a": {"b": 1}}\n',
        b'{"a": "\\n"}\n',
        b'{"a": 1, "a": 2}\n',
        b'{"a": 1, "A": 2}\n',
        b'{"a": 1,}\n',
    ],
)
def test_json_that_is_not_plain_has_no_form(line: bytes):
    assert json_form(b'{"a": 1, "b": "2"}\n') is not None
    assert json_form(line) is None
