"""JSON lines by DuckDB are what they are line by line, odd ones and errors included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cerp
from cerp.data.formats import json_lines
from ways_of_reading import told, without_cutting

IDS = st.one_of(
    st.integers(-1, 12),
    st.sampled_from(["a", "b", "é", 'say "x"', "back\\slash", "", " a", "7", "\ud800"]),
    st.sampled_from([None, 1.0, 1e-7, 1e21, True, 2**63, 2**64, [1], {"a": 1}]),
)
TIMES = st.one_of(
    st.integers(0, 2**40),
    st.floats(0, 1e9),
    st.sampled_from(["2020-01-01", "17", "1.5", None, "soon", float("nan"), 1e-7, 1e21]),
)


def both(path: Path, **options: Any) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """By DuckDB, and line by line."""
    with without_cutting(), pytest.MonkeyPatch.context() as patch:
        fast = told(path, **options)
        patch.setattr(json_lines, "_read_by_duckdb", lambda *_: None)
        return fast, told(path, **options)


@given(
    st.sampled_from([st.integers(0, 9), st.sampled_from("abcdé"), IDS]).flatmap(
        lambda ids: st.lists(st.tuples(ids, st.sampled_from("xyz"), TIMES), min_size=2, max_size=9)
    )
)
@settings(max_examples=20, deadline=None)
def test_both_ways_read_the_same(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]):
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    lines = (json.dumps({"user": u, "item": i, "time": t}) for u, i, t in rows)
    path.write_text("\n\n".join(lines))
    fast, slow = both(path)
    assert fast == slow
    fast, slow = both(path, time=False)
    assert fast == slow


@pytest.mark.parametrize(
    "options",
    [
        {"where": "kind = 'buy'"},
        {"min_rating": 2.5},
        {"where": "kind = 'buy'", "min_rating": 2},
        {"where": "nonsense ="},
        {"ids": "string"},
        {"time_format": "%d.%m.%Y", "time": "day"},
        {"user": "kind"},
    ],
)
def test_options_mean_the_same_in_both_ways(tmp_path: Path, options: dict[str, Any]):
    rows = [
        {"user": n % 4, "item": f"i{n % 3}", "rating": n / 2, "kind": ("buy", "look")[n % 2]}
        | {"day": f"{n + 1}.02.2020"}
        for n in range(12)
    ]
    path = tmp_path / "it's [a].jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    fast, slow = both(path, **options)
    assert fast == slow


@pytest.mark.parametrize(
    "line",
    [
        '{"user": 1, "user": 2, "item": 3}',
        '{"user": 1, "item": 3}{"user": 2, "item": 4}',
        '{"USER": 1, "item": 3}',
        "null",
        "3",
        '{"user": "a\\u0000b", "item": 3}',
    ],
)
def test_odd_lines_are_told_in_the_same_words(tmp_path: Path, line: str):
    path = tmp_path / "a.jsonl"
    path.write_text('{"user": 5, "item": 7}\n{"user": 6, "item": 8}\n' + line + "\n")
    fast, slow = both(path)
    assert fast == slow


@pytest.mark.parametrize(
    ("one", "other"),
    [('"A/é"', '"\\u0041\\/\\u00e9"'), ('"\\n"', '"\\u000a"'), ("0", "-0"), ('"7"', '"\\u0037"')],
)
def test_an_id_that_is_written_in_two_ways_is_one(tmp_path: Path, one: str, other: str):
    path = tmp_path / "a.jsonl"
    lines = (f'{{"user": {user}, "item": {item}}}' for user in (one, other) for item in "34")
    third = '"z"' if one.startswith('"') else "8"
    path.write_text("\n".join([*lines, f'{{"user": {third}, "item": 3}}']))
    fast, slow = both(path)
    assert fast == slow
    assert fast[2] == [0, 0, 1]


def test_duckdb_reads_what_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object) -> None:
        raise AssertionError("read line by line")

    monkeypatch.setattr(json_lines, "_read_by_line", refused)
    path = tmp_path / "a.jsonl"
    rows = [{"user": f"u{n}", "item": n % 3, "time": f"2020-01-0{n}"} for n in range(1, 5)]
    path.write_text("\n".join(map(json.dumps, rows)))
    data = cerp.read(path)
    assert data.users.values.tolist() == ["u1", "u2", "u3", "u4"]
    assert data.items.values.tolist() == [0, 1, 2]
    assert data.time is not None
    assert np.diff(data.time).tolist() == [24 * 3600 * 10**6] * 3
