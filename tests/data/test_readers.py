"""What `read` makes of each kind of source."""

from __future__ import annotations

import csv
import gzip
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from cerp.artifact.numbers import LARGEST_NUMBER
from cerp.data.formats.duckdb_memory import Database
from cerp.data.interactions import Interactions
from cerp.data.readers import read, read_titles
from cerp.errors import CerpError
from ways_of_reading import without_cutting

TABLE = [("ann", "x"), ("bob", "y"), ("ann", "y")]
FRAME = pd.DataFrame(TABLE, columns=["user_id", "item_id"])


def written(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_bytes(content.encode())
    return path


def pairs(data: Interactions) -> set[tuple[Any, Any]]:
    return set(zip(data.users.decode(data.user), data.items.decode(data.item), strict=True))


@pytest.mark.parametrize("delimiter", ["::", "\t", ",", ";", "|", " "])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_delimiter_and_header_are_detected(tmp_path: Path, delimiter: str, ending: str) -> None:
    rows = [("user_id", "item_id"), *TABLE]
    path = written(tmp_path, "a.csv", ending.join(delimiter.join(row) for row in rows))
    assert pairs(read(path)) == set(TABLE)


@pytest.mark.parametrize(
    "header",
    ["userId,movieId", "reviewerID,asin", "visitorid,itemid", "User-ID,ISBN", "UID,business_id"],
)
def test_header_names_are_recognised_in_any_case(tmp_path: Path, header: str) -> None:
    assert pairs(read(written(tmp_path, "a.csv", f"{header}\n1,5\n2,6\n"))) == {(1, 5), (2, 6)}


def test_generic_name_wins_over_a_specific_one(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "customer_id,user_id,item_id\n7,1,5\n7,2,6\n")
    assert read(path).users.values.tolist() == [1, 2]


def test_columns_without_names_are_user_item_rating_time(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "1,5,4.5,100\n2,6,1,200\n2,5,4,300\n1,6,5,50\n")
    data = read(path, min_rating=4)
    assert pairs(data) == {(1, 5), (2, 5), (1, 6)}
    assert data.time is not None
    assert data.time.tolist() == [100, 50, 300]  # sorted by user, then item


def test_third_column_that_is_no_number_is_not_a_rating(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "1,5,red,100\n2,6,blue,200\n")
    with pytest.raises(CerpError, match="min_rating needs a rating column"):
        read(path, min_rating=4)


def test_columns_can_be_chosen_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "when,what,who\n3,5,1\n4,6,2\n")
    data = read(path, user="who", item="what", time="when")
    assert pairs(data) == {(1, 5), (2, 6)}
    assert data.time is not None
    assert data.time.tolist() == [3, 4]


@pytest.mark.parametrize(("user", "item"), [(1, 0), ("1", "0")])
def test_columns_can_be_chosen_by_position(tmp_path: Path, user: Any, item: Any) -> None:
    path = written(tmp_path, "a.csv", "5,1\n6,2\n")
    assert pairs(read(path, user=user, item=item)) == {(1, 5), (2, 6)}


def test_position_asked_for_the_rating_is_not_the_time(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "1,5,red,4\n2,6,red,5\n")
    assert read(path, rating=3).time is None


def test_header_can_be_declared_absent(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "user,item\nann,x\n")
    assert pairs(read(path, header=False)) == {("user", "item"), ("ann", "x")}


def test_integer_ids_are_numbered_in_numeric_order(tmp_path: Path) -> None:
    data = read(written(tmp_path, "a.csv", "10,3\n9,20\n10,20\n"))
    assert data.users.values.tolist() == [9, 10]
    assert data.items.values.tolist() == [3, 20]


def test_string_ids_are_numbered_by_first_appearance(tmp_path: Path) -> None:
    rows = "".join(f"u{k * 7919 % 5000},i{k % 3}\n" for k in range(5000))
    data = read(written(tmp_path, "a.csv", "user,item\n" + rows))
    assert data.users.values.tolist() == [f"u{k * 7919 % 5000}" for k in range(5000)]
    assert data.items.values.tolist() == ["i0", "i1", "i2"]


@pytest.mark.parametrize("odd", ["007", "NA", "null", "NaN", "1.0", "+1", "-0", "1 1"])
def test_one_id_that_is_no_plain_integer_keeps_the_column_text(tmp_path: Path, odd: str) -> None:
    data = read(written(tmp_path, "a.csv", f"user,item\n{odd},5\n7,6\n"))
    assert data.users.values.tolist() == [odd, "7"]
    assert data.items.values.tolist() == [5, 6]


@pytest.mark.parametrize(
    "text",
    [
        "user, item\n1, 5\n2, 6\n",
        "user ,item\n 1 ,5\t\n2\t,6\n",
        "user;\titem\n1;\t5\n2; 6\n",
        'user, item\n"1", " 5"\n2, "6"\n',
        "user :: item\n1 :: 5\n2 :: 6\n",
        " 1\t5 \n2\t6\n",
    ],
)
def test_blanks_around_fields_are_no_part_of_them(tmp_path: Path, text: str) -> None:
    assert pairs(read(written(tmp_path, "a.csv", text))) == {(1, 5), (2, 6)}


def test_ids_that_differ_in_blanks_alone_are_one_id(tmp_path: Path) -> None:
    data = read(written(tmp_path, "a.csv", "user,item\nb,y\na ,x\na,y\n a,x\n"))
    assert data.users.values.tolist() == ["b", "a"]
    assert pairs(data) == {("b", "y"), ("a", "x"), ("a", "y")}
    assert data.duplicates == 1


def test_names_ratings_and_times_are_read_without_their_blanks(tmp_path: Path) -> None:
    text = "who, what, stars, when\n1, 5,\t4, 1970-01-01\t\n2, 6, 5 , 1970-01-02 \n3, 7, 1, x\n"
    path = written(tmp_path, "a.csv", text)
    data = read(path, user="who", item="what", rating="stars", time="when", min_rating=4)
    assert data.time is not None
    assert data.time.tolist() == [0, 86_400_000_000]


def test_typed_ids_keep_their_blanks(tmp_path: Path) -> None:
    frame = pd.DataFrame({"user": ["a", "a "], "item": [" x", "x"]})
    frame.to_parquet(tmp_path / "a.parquet")
    for source in (frame, tmp_path / "a.parquet"):
        assert pairs(read(source)) == {("a", " x"), ("a ", "x")}


@pytest.mark.parametrize("name", ["A.CSV", "A.Tsv", "A.CSV.GZ", "A.TXT"])
def test_suffixes_are_recognised_in_any_case(tmp_path: Path, name: str) -> None:
    content = b"user,item\n1,5\n2,6\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("GZ") else content)
    assert pairs(read(tmp_path / name)) == {(1, 5), (2, 6)}


def test_ids_may_start_with_a_number_sign(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "#a,x\n#b,y\n")
    assert pairs(read(path, header=False)) == {("#a", "x"), ("#b", "y")}


def test_the_largest_id_is_the_largest_that_a_model_file_holds(tmp_path: Path) -> None:
    data = read(written(tmp_path, "a.csv", f"1,5\n2,{LARGEST_NUMBER}\n"))
    assert data.items.values.tolist() == [5, LARGEST_NUMBER]
    with pytest.raises(CerpError, match=r"line 2: item id .* the largest integer id; .* as text"):
        read(written(tmp_path, "a.csv", f"1,5\n2,{LARGEST_NUMBER + 1}\n"))


def test_ids_can_be_kept_as_strings(tmp_path: Path) -> None:
    data = read(written(tmp_path, "a.csv", "10,-3\n9,5\n"), ids="string")
    assert data.users.values.tolist() == ["10", "9"]
    assert data.items.values.tolist() == ["-3", "5"]


def test_repeated_rows_are_merged_at_their_earliest_time(tmp_path: Path) -> None:
    data = read(written(tmp_path, "a.csv", "1,5,1,30\n2,6,1,40\n1,5,1,20\n"))
    assert data.duplicates == 1
    assert data.time is not None
    assert data.time.tolist() == [20, 40]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("12", "-3"), [12, -3]),
        (("0.5", "2"), [500_000, 2_000_000]),
        (("1970-01-01", "1970-01-01 00:00:01.5"), [0, 1_500_000]),
        (("1970-01-01T00:00:02Z", "1970-01-01T02:00:00+02:00"), [2_000_000, 0]),
    ],
)
def test_times_are_whole_numbers_or_become_microseconds(
    tmp_path: Path, texts: tuple[str, str], expected: list[int]
) -> None:
    text = written(tmp_path, "a.csv", f"user,item,time\n1,5,{texts[0]}\n2,6,{texts[1]}\n")
    frame = pd.DataFrame({"user": [1, 2], "item": [5, 6], "time": texts})
    frame.to_parquet(tmp_path / "a.parquet")
    for source in (text, tmp_path / "a.parquet", frame):
        time = read(source).time
        assert time is not None
        assert time.tolist() == expected


def test_typed_times_become_microseconds(tmp_path: Path) -> None:
    when = pd.to_datetime(["1970-01-01 00:00:01", "1970-01-02 00:00:00"])
    for kind in (when, when.tz_localize("UTC"), when.astype("datetime64[ns]")):
        frame = pd.DataFrame({"user": [1, 2], "item": [5, 6], "time": kind})
        frame.to_parquet(tmp_path / "a.parquet")
        for source in (frame, tmp_path / "a.parquet"):
            time = read(source).time
            assert time is not None
            assert time.tolist() == [1_000_000, 86_400_000_000]


@pytest.mark.parametrize(
    "times",
    [
        [0, 1_700_000_000, 1_600_000_000],  # seconds; 0 where unknown
        [1_700_000_000_000, 1_600_000_000_000, 1],  # milliseconds
        [10**9, 10**11, 10**12],  # something since the start of a log
    ],
)
def test_whole_times_of_one_unit_are_kept(tmp_path: Path, times: list[int]) -> None:
    frame = pd.DataFrame({"user": [1, 2, 3], "item": [5, 6, 7], "time": times})
    frame.to_csv(tmp_path / "a.csv", index=False)
    for source in (frame, tmp_path / "a.csv"):
        found = read(source).time
        assert found is not None
        assert found.tolist() == times


def test_times_can_be_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "user,item,date\n1,5,yesterday\n2,6,today\n")
    assert read(path, time=False).time is None


def test_min_rating_forgets_users_and_items_without_rows(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "user,item,stars\n9,9,1\n1,5,4\n2,6,5\n")
    data = read(path, min_rating=4)
    assert data.users.values.tolist() == [1, 2]
    assert data.items.values.tolist() == [5, 6]


def test_k_core_is_applied(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "1,5\n1,6\n2,5\n2,6\n3,6\n")
    assert read(path, k_core=2).users.values.tolist() == [1, 2]


def test_file_names_are_taken_literally(tmp_path: Path) -> None:
    written(tmp_path, "a1.csv", "user,item\nwrong,x\n")
    path = written(tmp_path, "a[1]*?'.csv", "user,item\nann,x\nbob,y\n")
    assert pairs(read(path)) == {("ann", "x"), ("bob", "y")}


def test_gzip_encoding_and_byte_order_mark(tmp_path: Path) -> None:
    text = "user,item\nJosé,x\nbob,y\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.csv").write_bytes(text.encode("utf-16"))
    (tmp_path / "c.csv").write_bytes(text.encode("utf-8-sig"))
    expected = {("José", "x"), ("bob", "y")}
    assert pairs(read(tmp_path / "a.csv.gz")) == expected
    assert pairs(read(tmp_path / "b.csv", encoding="utf-16")) == expected
    assert pairs(read(tmp_path / "c.csv")) == expected


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    path = written(tmp_path, "a.csv", "\n\nuser,item\n\nann,x\n\nbob,y\n\n")
    assert pairs(read(path)) == {("ann", "x"), ("bob", "y")}


def test_recbole_types_are_not_part_of_the_names(tmp_path: Path) -> None:
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    path = written(tmp_path, "a.inter", header + "1\t5\t3\t10\n2\t6\t5\t20\n1\t7\t4\t30\n")
    assert pairs(read(path, min_rating=4)) == {(2, 6), (1, 7)}


def test_lightgcn_text_counts_users_without_items(tmp_path: Path) -> None:
    data = read(written(tmp_path, "a.txt", "3 7 8 9\n1 8\n2\n"))
    assert pairs(data) == {(3, 7), (3, 8), (3, 9), (1, 8)}
    assert data.users.values.tolist() == [1, 2, 3]


def test_txt_with_a_delimiter_is_delimited(tmp_path: Path) -> None:
    assert pairs(read(written(tmp_path, "a.txt", "1\t5\t9\n2\t6\t9\n"))) == {(1, 5), (2, 6)}


def test_txt_of_three_columns_is_read_as_told(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "1 5 9\n2 6 9\n")
    assert pairs(read(path, format="csv")) == {(1, 5), (2, 6)}
    assert pairs(read(path, format="lightgcn")) == {(1, 5), (1, 9), (2, 6), (2, 9)}


def test_json_lines_keep_their_types(tmp_path: Path) -> None:
    rows = [{"user_id": "1", "item_id": 5}, {"item_id": 6, "user_id": "2", "other": []}]
    path = written(tmp_path, "a.jsonl", "\n\n".join(map(json.dumps, rows)))
    assert pairs(read(path)) == {("1", 5), ("2", 6)}


def test_json_lines_with_rating_and_time(tmp_path: Path) -> None:
    rows = [
        {"user": "a", "item": "x", "overall": 5, "time": "1970-01-01T00:00:01Z"},
        {"user": "b", "item": "y", "overall": 4.5, "time": "1970-01-01"},
        {"user": "c", "item": "z", "overall": 1, "time": "1970-01-01"},
    ]
    data = read(written(tmp_path, "a.json", "\n".join(map(json.dumps, rows))), min_rating=4)
    assert pairs(data) == {("a", "x"), ("b", "y")}
    assert data.time is not None
    assert data.time.tolist() == [1_000_000, 0]


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"user": ["10", "9"], "item": pa.array([3, 2], pa.uint16())}), path)
    data = read(path)
    assert data.users.values.tolist() == ["10", "9"]
    assert data.items.values.tolist() == [2, 3]


def test_parquet_folder_is_one_table(tmp_path: Path) -> None:
    folder = tmp_path / "date=2020"
    folder.mkdir()
    pq.write_table(pa.table({"user": ["b", "a"], "item": ["x", "y"]}), folder / "part-0.parquet")
    pq.write_table(pa.table({"user": ["c", "a"], "item": ["x", "y"]}), folder / "part-1.parquet")
    (folder / "_SUCCESS").touch()
    data = read(folder)
    assert data.users.values.tolist() == ["b", "a", "c"]
    assert data.duplicates == 1
    assert data.time is None


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.astype("category"),
        pl.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME),
        pa.RecordBatch.from_pandas(FRAME),
    ],
    ids=["pandas", "categories", "polars", "arrow", "batch"],
)
def test_data_frames_give_the_same_interactions(frame: Any) -> None:
    data = read(frame)
    assert pairs(data) == set(TABLE)
    assert data.users.values.tolist() == ["ann", "bob"]


def test_data_frame_of_integers_with_rating() -> None:
    frame = pl.DataFrame({"user": [2, 1, 1], "item": [7, 8, 9], "rating": [5, 4, 1]})
    assert pairs(read(frame, min_rating=4)) == {(2, 7), (1, 8)}
    assert read(frame, ids="string").users.values.tolist() == ["2", "1"]


def test_sparse_matrix_ids_are_row_and_column_numbers() -> None:
    matrix = scipy.sparse.csr_array(np.array([[0, 1, 0], [2, 0, 0]]))
    data = read(matrix)
    assert pairs(data) == {(0, 1), (1, 0)}
    assert data.num_items == 3


def test_titles_take_the_type_of_the_items(tmp_path: Path) -> None:
    titles = written(tmp_path, "movies.csv", 'movieId,title\n5,"Heat, the"\n6,Up\n7,Unseen\n')
    integers = written(tmp_path, "a.csv", "1,5\n2,6\n")
    assert read(integers, titles=titles).titles == {5: "Heat, the", 6: "Up"}
    assert read(integers, ids="string", titles=titles).titles == {"5": "Heat, the", "6": "Up"}


def test_titles_are_read_without_blanks_around_them(tmp_path: Path) -> None:
    assert read_titles(written(tmp_path, "t.csv", "item, title\n 5, Heat \n")) == {5: "Heat"}


def test_titles_without_header_fall_back_to_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "u.item"
    path.write_bytes("1|Café (1995)|x\n2|Up|y\n".encode("latin-1"))
    assert read_titles(path) == {1: "Café (1995)", 2: "Up"}


def test_movielens_100k_needs_no_preparation(shared_data: Any) -> None:
    data = read(shared_data("ml-100k"), min_rating=4)
    assert (len(data), data.num_users, data.num_items) == (55_375, 942, 1_447)
    assert data.titles[1] == "Toy Story (1995)"
    assert data.time is not None


def test_ids_that_share_a_hash_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cerp.data.formats.duckdb_scan.HASH", "length({})::ubigint")
    path = written(tmp_path, "a.csv", "user,item\nann,x\nbob,y\nann,y\n")
    with without_cutting():
        assert pairs(read(path)) == set(TABLE)


@pytest.mark.parametrize("many", [0, 1000])
@pytest.mark.parametrize("stretch", [1, 2, 3])
def test_rows_that_come_in_stretches_are_all_there_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stretch: int, many: int
) -> None:
    monkeypatch.setattr("cerp.data.formats.duckdb_scan.LONG_STRETCH", stretch)
    monkeypatch.setattr("cerp.data.formats.duckdb_scan.MANY_ROWS", many)
    rows = ["bob,y,5,9,2", "ann,x,1,8,3", "ann,y,4,7,4", "cy,z,1,6,5", "cy,x,5,5,6"]
    path = written(tmp_path, "a.csv", "\n".join(["user,item,rating,time,plays", *rows]))
    data = read(path, min_rating=4, weight="plays")
    assert data.users.values.tolist() == ["bob", "ann", "cy"]
    assert data.items.values.tolist() == ["y", "x"]
    assert (data.user.tolist(), data.item.tolist()) == ([0, 1, 2], [0, 0, 1])
    assert data.time is not None
    assert data.weight is not None
    assert (data.time.tolist(), data.weight.tolist()) == ([9, 7, 5], [2, 4, 6])


def test_memory_of_dropped_columns_is_given_back() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    if not Path("/proc/self/statm").is_file():
        pytest.skip("only Linux says how much memory a process has")
    with Database() as database:
        threads = database.rows("select current_setting('threads')")
        database.rows("create temp table loaded as select range as a from range(20_000_000)")
        full = resident()
        database.rows("drop table loaded")
        database.hand_back()
        assert resident() < full - 80_000_000  # of 160 MB
        assert database.rows("select current_setting('threads')") == threads


NASTY = st.text(
    st.sampled_from("\"',;|: \t0179aé漢😀\\#\ufeff")
    | st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"),
    min_size=1,
    max_size=6,
).filter(lambda text: text.strip(" \t"))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(NASTY, NASTY), max_size=8),
    delimiter=st.sampled_from("\t,;| "),
    ending=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_whatever_csv_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    delimiter: str,
    ending: str,
    quoting: Any,
) -> None:
    path = tmp_path_factory.mktemp("round") / "a.csv"
    rows = [("user-1", "item-1"), ("user-2", "line\nbreak"), *rows]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator=ending, quoting=quoting)
        writer.writerows([("user", "item"), *rows])
    expected = {(user.strip(" \t"), item.strip(" \t")) for user, item in rows}
    assert pairs(read(path, delimiter=delimiter)) == expected


def test_what_an_archive_holds_without_a_suffix_is_told_by_its_lines(tmp_path):
    frame = pd.DataFrame({"user": ["ann", "bo"], "item": [1, 2]})
    frame.to_csv(tmp_path / "r.zip", index=False)
    with zipfile.ZipFile(tmp_path / "r.zip") as archive:
        assert archive.namelist() == ["r"]  # as pandas names it
    assert len(read(tmp_path / "r.zip")) == 2
