"""Ids as they come: kept to the character, or refused by name while they are read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from cerp.data.formats import text_files
from cerp.data.interactions import Interactions
from cerp.data.readers import read, read_titles
from cerp.data.splits import Splits
from cerp.errors import DataError

ODD_SPACES = ("\u00a0", "\u2028", "\u0085", "\x1c", "\x0b", "\x0c", "\u3000")


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("space", ODD_SPACES)
def test_only_blanks_and_tabs_separate_the_ids_of_lightgcn_text(tmp_path: Path, space: str):
    path = written(tmp_path, "a.txt", f"a{space}b x\t y{space}z\r\nc  x\rd y{space}z\n")
    data = read(path, format="lightgcn")
    assert data.users.values.tolist() == [f"a{space}b", "c", "d"]
    assert data.items.values.tolist() == ["x", f"y{space}z"]


def test_minus_zero_is_another_id_than_zero(tmp_path: Path):
    data = read(written(tmp_path, "a.txt", "0 1 2 3\n-0 1 2 3\n1 1 2\n"), format="lightgcn")
    assert data.users.values.tolist() == ["0", "-0", "1"]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("9" * 5000, r"user id 99999999999999999999\.\.\. of 5,000 digits is above"),
        (str(10**20), "user id 100000000000000000000 is above"),
        ("-" + "9" * 5000, r"user id -9+ is negative"),
        ("-1", "user id -1 is negative"),
    ],
)
def test_numbers_beyond_any_integer_are_named(tmp_path: Path, number: str, message: str):
    with pytest.raises(DataError, match=message):
        read(written(tmp_path, "a.txt", f"{number} 1 2 3\n2 1 2\n"), format="lightgcn")


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.inter"])
@pytest.mark.parametrize("line_break", ["\r", "\n", "\r\n"])
def test_line_breaks_within_quotes_are_part_of_an_id(tmp_path: Path, name: str, line_break: str):
    odd = f"{line_break}ann"
    if name == "a.jsonl":
        content = pd.DataFrame({"user": [odd, "bob"], "item": ["x", "y"]}).to_json(
            orient="records", lines=True
        )
    else:
        tab = "," if name == "a.csv" else "\t"
        content = f'user_id{tab}item_id\n"{odd}"{tab}x\nbob{tab}y\n'
    assert read(written(tmp_path, name, content)).users.values.tolist() == [odd, "bob"]


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.jsonl"])
def test_a_nul_byte_is_refused_wherever_it_is(tmp_path: Path, name: str):
    row = '{"user": "u", "item": "i%d"}\n' if name == "a.jsonl" else "u,i%d\n"
    rows = "".join(row % k for k in range(20_000))
    content = ("" if name == "a.jsonl" else "user,item\n") + rows + row % 7
    line = content.count("\n")
    assert content.rindex("i7") > text_files.HEAD_BYTES
    spoilt = content[: content.rindex("i7")] + "\0" + content[content.rindex("i7") :]
    with pytest.raises(DataError, match=rf"line {line}: binary data"):
        read(written(tmp_path, name, spoilt))


@pytest.mark.parametrize("places", [[0], [11], [12], [40], [5, 39], [23, 24, 25]])
def test_the_first_of_many_nul_bytes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: list[int]
):
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 4)
    monkeypatch.setattr(text_files, "allowed_threads", lambda: 3)
    content = bytearray(b"\n" * 41)
    for place in places:
        content[place] = 0
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"line {places[0] + 1}: binary data"):
        text_files.refuse_nul(path, path)


def test_a_split_with_a_nul_byte_is_refused(tmp_path: Path):
    written(tmp_path, "train.txt", "a x y\nb x\nc y z\n")
    written(tmp_path, "test.txt", "a z\nb\0 y\n")
    with pytest.raises(DataError, match=r"test\.txt, line 2: binary data"):
        Splits.load(tmp_path)


LONG = "x" * 1001
FLAWED: list[tuple[str, str]] = [
    (LONG, "has 1,001 characters; an id has at most 1,000"),
    ("a\ud800", "holds half a surrogate pair"),
    ("a\0", "holds the character NUL"),
]


@pytest.mark.parametrize(("flawed", "message"), FLAWED)
def test_an_id_that_no_request_could_carry_is_refused_by_name(flawed: str, message: str):
    sources: tuple[Any, ...] = (
        pd.DataFrame({"user": ["a", flawed], "item": ["x", "y"]}, dtype=object),
        pd.DataFrame({"user": ["a", "b"], "item": ["x", flawed]}, dtype=object),
    )
    for source in sources:
        with pytest.raises(DataError, match=rf"row 2: (user|item) id .* {message}"):
            read(source)
    with pytest.raises(DataError, match=rf"user id .* in row 1 {message}"):
        Interactions.from_ids([flawed, "b"], ["x", "y"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", f"user,item\na,x\n{LONG},y\n"),
        ("a.jsonl", f'{{"user": "a", "item": "x"}}\n{{"user": "{LONG}", "item": "y"}}\n'),
        ("a.txt", f"a x\n{LONG} y z\n"),
    ],
)
def test_an_overlong_id_is_refused_in_every_format(tmp_path: Path, name: str, content: str):
    with pytest.raises(DataError, match="user id 'xxxxxxxxxxxxxxxxxxxx' has 1,001 characters"):
        read(written(tmp_path, name, content))


def test_the_longest_id_is_read(tmp_path: Path):
    data = read(written(tmp_path, "a.csv", f"user,item\na,x\n{LONG[1:]},y\n"))
    assert data.users.values.tolist() == ["a", LONG[1:]]


def test_nan_in_a_sparse_matrix_is_no_interaction_and_said_so():
    matrix = scipy.sparse.csr_matrix(np.array([[1.0, 0.0, 2.0], [0.0, np.nan, 1.0]]))
    with pytest.raises(DataError, match="NaN in row 1, column 1"):
        read(matrix)


def test_integers_of_128_bits_are_integers():
    def frame(users: list[int | None]) -> pl.DataFrame:
        return pl.DataFrame({"user": pl.Series(users, dtype=pl.Int128), "item": ["x", "y"]})

    assert read(frame([7, 5])).users.values.tolist() == [5, 7]
    with pytest.raises(DataError, match=f"row 1: user id {2**100} is above"):
        read(frame([2**100, 5]))
    with pytest.raises(DataError, match="row 1: the user id is missing"):
        read(frame([None, 5]))


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_compressed_file_that_grows_beyond_measure_is_refused(
    tmp_path: Path, monkeypatch, encoding: str
):
    monkeypatch.setattr(text_files, "UNPACKED_BYTES", 1 << 20)
    rows = b"user,item\nann,x\nbob,y\n"
    bomb = written(tmp_path, "a.csv.gz", gzip.compress(rows + b"ann,x\n" * 2**19))
    with pytest.raises(DataError, match=r"unpacks to more than 1,[0-9,]+ bytes, 200 times"):
        read(bomb, encoding=encoding)
    with pytest.raises(DataError, match="unpacks to more than"):
        read_titles(bomb)
    assert len(read(written(tmp_path, "b.csv.gz", gzip.compress(rows)), encoding=encoding)) == 2
