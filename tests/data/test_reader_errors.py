"""What `read` refuses, and in which words."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.data.readers import read, read_titles
from cerp.errors import CerpError, ConfigError, DataError, MissingExtra

GOOD = "user,item,rating,time\n1,5,4,10\n2,6,5,20\n"


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.csv: the file is empty; it must hold interactions"),
        ("\n \n", "the file is empty"),
        ("user,item\n", "a header line and no rows"),
        ("user,item\n1,5\n1,6\n", "a.csv: only one user"),
        ("user,item\n1,5\n2,5\n", "only one item"),
        ("alone\nalone\n", "line 1 has a single column"),
        (
            "who,what\n1,5\n2,6\n",
            "recognised as the user; .* 'who', 'what'; choose one with user=",
        ),
        (
            "user,what\n1,5\n2,6\n",
            "recognised as the item; .* 'user', 'what'; choose one with item=",
        ),
        ("user,track_id,artist_id\n1,5,7\n2,6,8\n", "'track_id' and 'artist_id' could each be"),
        (
            "ann,x\nbob,y\n",
            r"cannot tell whether line 1 is a header \(ann, x\); say so with header=",
        ),
        ("user,item\n1,5\n,6\n", "line 3: the user id is missing"),
        ("user,item\n1,5\n\n2,\n", "line 4: the item id is missing"),
        ('user,item\n"1\n1",5\n"",6\n', "line 4: the user id is missing"),
        ("user,item\n1,5\n-2,6\n", 'line 3: user id -2 is negative; ids="string"'),
        ("user,item\n1,5\n2,9223372036854775808\n", "line 3: item id 9223372036854775808 is above"),
        (f"user,item\n1,5\n2,{'9' * 5000}\n", "line 3: item id 9+ is above 9223372036854775803"),
        ("user,item\n1, 5\n2, \t\n", "line 3: the item id is missing"),
        ("# made today\nuser,item\n1,5\n2,6\n", "line 1: starts with '#'; comments are not read"),
        ("\n#today\n# at noon, twice\n1;5\n2;6\n", "line 2: starts with '#'"),
        ("user,item\n1,5\n2,6,7\n", "line 3: 3 columns, where 2 are expected"),
        ("user,item\n1,5\n2\n", "line 3: 1 columns, where 2 are expected .* remove the line"),
        ('user,item\n"1,5\n2,6\n', "after line 1: not delimited text .unexpected end of data"),
        ('user,item\n1,5\n"2,6\n', "after line 2: unexpected end of data"),
        ("user,item\n1,5\n2,6\r\n", r"line 3: ends in '\\r\\n', the lines before in '\\n'"),
        (b"user,item\n1,5\n2,\xff\n", "line 3: not UTF-8 text; .*encoding=.latin-1."),
        (b"user,item\n" + b"1,5\n" * 20_000 + b"2,\xff\n", "line 20002: not UTF-8 text"),
        (b"\x7fELF\0\0\1,2", "binary data .* NUL bytes"),
        ("user,item" + "x" * 70_000 + "\n", "line 1 is longer than .* 65,536 bytes"),
        ("user,item\n" + "x" * 70_000 + ",5\n2,6\n", "line 2 is longer than .* 65,536 bytes"),
        ("user,item,time\n1,5,noon\n2,6,7\n", "line 2: the time 'noon' cannot be read"),
        ("user,item,time\n1,5,\n2,6,7\n", "line 2: the time None cannot be read"),
    ],
)
def test_unusable_text_is_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(written(tmp_path, "a.csv", content))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": "who"}, "user='who' is not a column; the columns are 'user', 'item', 'rating'"),
        ({"rating": "stars"}, "rating='stars' is not a column"),
        ({"user": "item"}, "'item' cannot be both user and item"),
        ({"min_rating": 9}, "no interactions"),
        ({"min_rating": float("nan")}, "min_rating=nan cannot be compared"),
        ({"k_core": 3}, "nothing is left"),
        ({"format": "excel"}, "unknown format 'excel'; choose one of csv, duckdb, jsonl"),
        ({"delimiter": "x"}, "unknown delimiter 'x'"),
        ({"encoding": "klingon"}, "encoding='klingon' is not known"),
        ({"encoding": "hex"}, "encoding='hex' is not a text encoding"),
        ({"encoding": "utf-16"}, "not utf-16 text"),
        ({"ids": "int"}, "ids='int'"),
        ({"titles": "nowhere.csv"}, "nowhere.csv: the titles cannot be read"),
        ({"format": "lightgcn", "min_rating": 3}, "min_rating cannot be used with the LightGCN"),
        ({"format": "jsonl", "header": True}, "header cannot be used with JSON lines"),
        ({"format": "parquet"}, "a.csv: not readable as Parquet"),
    ],
)
def test_unusable_options_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(CerpError, match=message):
        read(written(tmp_path, "a.csv", GOOD), **options)


@pytest.mark.parametrize("rating", ["good", "", "nan", "inf"])
def test_rating_that_is_no_number_is_refused(tmp_path: Path, rating: str) -> None:
    path = written(tmp_path, "a.csv", GOOD + f"3,7,{rating},30\n")
    assert len(read(path)) == 3
    with pytest.raises(DataError, match=r"line 4: the rating .* is not a number"):
        read(path, min_rating=4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        (
            '{"user": 1, "item": 5}\n{"user": "1", "item": 6}\n',
            "line 2: user id '1' is of type str",
        ),
        ('{"user": 1.5, "item": 5}\n', "line 1: user id 1.5 is of type float"),
        ('{"user": true, "item": 5}\n', "line 1: user id True is of type bool"),
        ('{"user": [], "item": 5}\n', r"line 1: user id \[\] is of type list"),
        ('{"user": 1, "item": 5}\n\n{"user": 2}\n', "line 3: the item id is missing"),
        ('{"user": "a", "item": 5}\n{"user": "", "item": 6}\n', "line 2: the user id is missing"),
        ('{"user": 1, "item": 5}\n{"user": -2, "item": 6}\n', "line 2: user id -2 is negative"),
        ('{"user": 1, "item": 18446744073709551616}\n', "line 1: item id .* is above"),
        ('{"user": "\\ud800", "item": 5}\n', "half a surrogate pair"),
        ('{"user": 1, "item": 5}\n{"user": 2,\n', "line 2: not JSON"),
        ('[{"user": 1, "item": 5}]\n', "line 1: not a JSON object; .* one object per line"),
        ('{"user": 1, "item": 5, "time": {}}\n', "line 1: the time {} cannot be read"),
    ],
)
def test_unusable_json_lines_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(written(tmp_path, "a.jsonl", content))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [1.0, 2.0], "item": [5, 6]}, "'user' of user ids is of type DOUBLE"),
        ({"user": ["a", None], "item": [5, 6]}, "row 2: the user id is missing"),
        ({"user": [1, None], "item": [5, 6]}, "row 2: the user id is missing"),
        ({"user": [1, -2], "item": [5, 6]}, "row 2: user id -2 is negative"),
        ({"user": [1, 2**63], "item": [5, 6]}, "row 2: user id 9223372036854775808 is above"),
        ({"who": [1, 2], "what": [5, 6]}, "the columns are 'who', 'what'; choose one with user="),
    ],
)
def test_unusable_parquet_is_refused(
    tmp_path: Path, columns: dict[str, list[Any]], message: str
) -> None:
    path = tmp_path / "a.parquet"
    kind = pa.uint64() if 2**63 in columns.get("user", []) else None
    pq.write_table(pa.table({name: pa.array(v, kind) for name, v in columns.items()}), path)
    with pytest.raises(DataError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [1.5, 2.0], "item": [5, 6]}, "pandas table: user ids are float64"),
        ({"user": [1, None], "item": [5, 6]}, "row 2: the user id is missing"),
        ({"user": ["a", None], "item": [5, 6]}, "row 2: the user id is missing"),
        ({"user": pd.array([1, None], "Int64"), "item": [5, 6]}, "row 2: the user id is missing"),
        ({"user": pd.array([1, "1"], object), "item": [5, 6]}, "row 2: user id '1' is of type str"),
        ({"user": [1, 2], "item": [True, False]}, "item ids are bool"),
        ({"user": [1, 2], "item": [5, 6], "date": [None, "x"]}, "row 1: the time None"),
    ],
)
def test_unusable_data_frame_is_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(pd.DataFrame(columns))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [1, 2], "item": [5, 6]}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    with pytest.raises(DataError, match=r"b\.parquet: not readable as Parquet"):
        read(written(tmp_path, "b.parquet", whole[: len(whole) // 2]))
    with pytest.raises(DataError, match=r"c\.csv\.gz: the compressed file is damaged"):
        read(written(tmp_path, "c.csv.gz", gzip.compress(GOOD.encode())[:-9]))
    with pytest.raises(DataError, match=r"d\.csv\.gz: the compressed file is damaged"):
        read(written(tmp_path, "d.csv.gz", GOOD))


def test_seconds_and_milliseconds_in_one_column_are_refused(tmp_path: Path) -> None:
    table = {"user": [1, 2, 3], "item": [5, 6, 7], "time": [1, 1_700_000_000, 1_700_000_000_000]}
    frame = pd.DataFrame(table)
    frame.to_csv(tmp_path / "a.csv", index=False)
    message = "time in line 3 looks like seconds, that in line 4 like milliseconds; .*time=False"
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.csv")
    for source in (frame, frame.astype({"time": object})):
        with pytest.raises(DataError, match="in row 2 looks like seconds, that in row 3"):
            read(source)


def test_a_comment_in_lightgcn_text_is_no_user(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.txt, line 2: starts with '#'; comments are not read"):
        read(written(tmp_path, "a.txt", "1 5 6\n# users above 1\n2 5 6 7\n"))


def test_ambiguous_txt_asks_for_the_format(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r'every line has 3 columns.* say which with format="csv" or'
    ):
        read(written(tmp_path, "a.txt", "1 5 9\n2 6 9\n"))


def test_paths_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.csv: no such file or folder"):
        read(tmp_path / "missing.csv")
    with pytest.raises(DataError, match=r"the suffix '\.xls' says nothing .* say it with format="):
        read(written(tmp_path, "a.xls", GOOD))
    with pytest.raises(DataError, match="nothing in this folder is usable"):
        read(tmp_path)


def test_folder_of_a_split_points_to_splits(tmp_path: Path) -> None:
    written(tmp_path, "train.txt", "1 2\n")
    written(tmp_path, "test.txt", "1 3\n")
    with pytest.raises(DataError, match=r"a split that is made already; load it with Splits\.load"):
        read(tmp_path)


def test_other_objects_are_refused() -> None:
    with pytest.raises(DataError, match="cannot read a list; give a path"):
        read([1, 2])
    with pytest.raises(DataError, match="cannot read a LazyFrame; give a path"):
        read(pl.LazyFrame({"user": [1, 2], "item": [5, 6]}))
    with pytest.raises(ConfigError, match="user cannot be used with a sparse matrix"):
        read(scipy.sparse.eye_array(3), user="who")
    with pytest.raises(ConfigError, match="header cannot be used with a data frame"):
        read(pd.DataFrame({"user": [1, 2], "item": [5, 6]}), header=True)


def test_without_duckdb_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"pip install 'cerp\[train\]'"):
        read(written(tmp_path, "a.csv", GOOD), where="user <> 'eve'")


def test_titles_that_match_nothing_are_refused(tmp_path: Path) -> None:
    titles = written(tmp_path, "t.csv", "item,title\nB1,Heat\n")
    with pytest.raises(DataError, match="none of its 1 ids is an item of the data"):
        read(written(tmp_path, "a.csv", GOOD), titles=titles)


def test_ragged_titles_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2: 1 columns, no item id and title"):
        read_titles(written(tmp_path, "t.csv", "1|Heat\n2\n"))


TABLE_LIKE = st.lists(
    st.lists(st.sampled_from(["1", "2", "-3", "a", '"', "", " ", "é", "user", "4.5"]), max_size=5)
).flatmap(
    lambda rows: st.tuples(
        st.sampled_from([",", "\t", "::", ";", " "]), st.sampled_from(["\n", "\r\n", "\r"])
    ).map(lambda cut: cut[1].join(cut[0].join(row) for row in rows).encode())
)


@settings(max_examples=150, deadline=None)
@given(
    content=st.binary(max_size=80) | st.text(max_size=80).map(str.encode) | TABLE_LIKE,
    suffix=st.sampled_from(["csv", "tsv", "txt", "inter", "jsonl", "csv.gz", "parquet"]),
    header=st.sampled_from([None, True, False]),
)
def test_arbitrary_bytes_give_interactions_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str, header: bool | None
) -> None:
    path = written(tmp_path_factory.mktemp("any"), f"a.{suffix}", content)
    try:
        data = read(path, header=header)
    except CerpError:
        return
    assert data.num_users > 1
    assert data.num_items > 1
    assert "" not in data.users.values.tolist()
