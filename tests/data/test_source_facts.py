"""What `read` says of a source, and the rows and columns that a caller chooses in it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cerp.cli import app
from cerp.data.datasets import load
from cerp.data.interactions import Interactions
from cerp.data.readers import read
from cerp.data.source_facts import times_in_words
from cerp.data.synthetic import synthetic, synthetic_titles
from cerp.errors import ConfigError, DataError

SHOP = (
    ",customer,sku,event,when,stars\n"
    "0,ann,a,view,01.03.2024,5\n"
    "1,ann,b,purchase,02.03.2024,4\n"
    "2,bob,a,purchase,03.03.2024,3\n"
    "3,bob,a,view,04.03.2024,2\n"
)
FRAME = pd.DataFrame(
    {"customer": ["ann", "ann", "bob"], "sku": ["a", "b", "a"], "event": ["view", "buy", "buy"]}
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop.csv"
    path.write_text(SHOP)
    return path


def pairs(data: Interactions) -> list[tuple[object, object]]:
    found = zip(data.users.decode(data.user), data.items.decode(data.item), strict=True)
    return sorted(found)


def test_the_columns_read_and_not_read_are_named(shop: Path):
    source = read(shop).source
    assert source.columns == {"user": "customer", "item": "sku"}
    assert source.ignored == ("", "event", "when", "stars")
    assert (source.rows, source.left_out, source.has_header) == (4, 0, True)


def test_a_column_that_mixes_events_is_warned_about_with_the_condition_to_give(shop: Path):
    (warning,) = read(shop).source.warnings
    assert "mixes purchase (2), view (2)" in warning
    assert "where=\"event = 'purchase'\"" in warning  # what most train on
    assert read(shop, where="event = 'purchase'").source.warnings == ()
    shop.write_text(SHOP.replace("purchase", "cart"))
    (warning,) = read(shop).source.warnings
    assert "where=\"event = 'view'\"" in warning


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl", "frame", "arrow", "duckdb"])
def test_a_condition_keeps_its_rows_whatever_the_source(tmp_path: Path, suffix: str):
    path = tmp_path / f"shop.{suffix}"
    if suffix == "csv":
        FRAME.to_csv(path, index=False)
    elif suffix == "parquet":
        FRAME.to_parquet(path)
    elif suffix == "jsonl":
        FRAME.to_json(path, orient="records", lines=True)
    elif suffix == "duckdb":
        with duckdb.connect(path) as database:
            database.register("given", FRAME)
            database.execute("create table sales as select * from given")
    source = {"frame": FRAME, "arrow": pa.table(FRAME)}.get(suffix, path)
    data = read(source, where="event = 'buy'")
    assert pairs(data) == [("ann", "b"), ("bob", "a")]
    assert (data.source.rows, data.source.left_out) == (3, 1)
    with pytest.raises(ConfigError, match=r"where=\"evnt = 'buy'\" cannot be applied"):
        read(source, where="evnt = 'buy'")


def test_numbers_of_a_text_file_are_compared_as_numbers(shop: Path):
    assert pairs(read(shop, where="stars > 2")) == [("ann", "a"), ("ann", "b"), ("bob", "a")]


def test_a_line_is_named_as_it_is_in_the_file_also_under_a_condition(shop: Path):
    shop.write_text(SHOP + "4,,b,purchase,05.03.2024,1\n")
    with pytest.raises(DataError, match="line 6: the user id is missing"):
        read(shop, where="event = 'purchase'")


def test_times_in_a_format_of_their_own_are_read(shop: Path):
    data = read(shop, time="when", time_format="%d.%m.%Y")
    days = data.time // (24 * 3600 * 10**6)
    # 2024-03-01 is day 19,783 since 1970; bob's repeated pair keeps its first time.
    assert days.tolist() == [19783, 19784, 19785]
    with pytest.raises(DataError, match=r"line 2: the time '01.03.2024' cannot be read"):
        read(shop, time="when", time_format="%d/%m/%Y")


def test_a_decimal_comma_is_understood_where_it_is_said(tmp_path: Path):
    path = tmp_path / "stars.csv"
    path.write_text("user;item;rating\na;x;3,5\na;y;4,5\nb;x;5,0\n")
    assert pairs(read(path, min_rating=4, decimal=",", k_core=None)) == [("a", "y"), ("b", "x")]
    with pytest.raises(DataError, match="the rating '3,5' is not a number"):
        read(path, min_rating=4)


def test_a_column_is_chosen_by_position_also_where_there_is_a_header(shop: Path):
    assert read(shop, user=2, item=1).source.columns == {"user": "sku", "item": "customer"}


def test_a_zip_of_one_file_is_read_and_one_of_several_is_not(shop: Path):
    packed = shop.with_suffix(".zip")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(shop, "shop.csv")
    assert pairs(read(packed)) == pairs(read(shop))
    with zipfile.ZipFile(packed, "a") as archive:
        archive.write(shop, "again.csv")
    with pytest.raises(DataError, match=r"holds 2 files \(shop.csv, again.csv\)"):
        read(packed)


def test_a_zip_that_unpacks_without_end_is_refused(tmp_path: Path):
    packed = tmp_path / "bomb.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.csv", b"user,item\n" + b"0" * (70 << 20))
    with pytest.raises(DataError, match="unpacks to more than"):
        read(packed)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(k, k % 7) for k in range(200)], "each of the 200 rows has a user of its own"),
        ([(f"{k % 5}.0", k % 7) for k in range(30)], "user ids such as '0.0' are kept as text"),
    ],
)
def test_ids_that_are_hardly_meant_are_warned_about(tmp_path: Path, rows, message: str):
    path = tmp_path / "odd.csv"
    path.write_text("\n".join(f"{user},{item}" for user, item in rows))
    (warning,) = read(path, header=False).source.warnings
    assert message in warning


@pytest.mark.parametrize("unit", [1, 10**3, 10**6])
def test_times_are_told_as_dates(unit: int):
    times = np.array([874_724_710, 893_286_638]) * unit  # of MovieLens-100K
    assert times_in_words(times) == "1997-09-20 to 1998-04-22"
    assert times_in_words(np.array([1, 700])) == "1 to 700, which are no dates"


def test_a_query_reads_a_database_and_several_tables_are_a_question(tmp_path: Path):
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(path) as database:
        database.execute("create table sales as select i % 5 as u, i % 3 as i from range(15) t(i)")
        database.execute("create table other as select 1 as x")
    assert len(read(path, sql="select u as user, i as item from sales")) == 15
    with pytest.raises(ConfigError, match="its tables are: other, sales"):
        read(path)
    with pytest.raises(ConfigError, match="sql='select nothing' cannot be answered"):
        read(path, sql="select nothing")


def test_any_giver_of_arrow_streams_is_read():
    with duckdb.connect() as database:
        relation = database.sql('select i % 5 as "user", i % 3 as item from range(15) t(i)')
        assert len(read(relation)) == 15


def test_partitions_of_a_folder_are_columns(tmp_path: Path):
    FRAME.to_parquet(tmp_path / "parts", partition_cols=["event"])
    assert pairs(read(tmp_path / "parts", where="event = 'buy'")) == [("ann", "b"), ("bob", "a")]


def test_titles_are_given_to_a_split_folder_too(tmp_path: Path):
    synthetic(30, 20, 200).split().save(tmp_path / "split")
    (tmp_path / "titles.csv").write_text("item,title\n3,Three\n")
    splits = load(tmp_path / "split", titles=tmp_path / "titles.csv")
    assert splits.titles == {3: "Three"}
    assert splits.fingerprint == load(tmp_path / "split").fingerprint


def test_a_split_is_replaced_only_where_that_is_said(tmp_path: Path):
    first, second = synthetic(30, 20, 200).split(seed=0), synthetic(30, 20, 200).split(seed=1)
    first.save(tmp_path / "split")
    with pytest.raises(ConfigError, match="give overwrite=True to replace it"):
        second.save(tmp_path / "split")
    second.save(tmp_path / "split", overwrite=True)
    assert load(tmp_path / "split").fingerprint == second.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["split"]
    (tmp_path / "notes").mkdir()
    with pytest.raises(ConfigError, match=r"choose another folder$"):
        second.save(tmp_path / "notes", overwrite=True)


def test_made_up_titles_name_communities_and_change_no_data():
    splits = load("synthetic")
    assert splits.fingerprint == synthetic().split().fingerprint
    titles = synthetic_titles()
    assert len(set(titles.values())) == 1800 == len(splits.titles)
    # Of what a user took, far more is of one genre than a twelfth.
    shares = []
    for user in range(50):
        items = splits.train.item[splits.train.user_offsets[user] :][:20]
        genres = [titles[item].split(" ")[0] for item in items.tolist()]
        shares.append(max(genres.count(genre) for genre in genres) / len(genres))
    assert np.mean(shares) > 0.3


def test_data_info_tells_what_was_read(shop: Path):
    options = ["data", "info", str(shop), "--no-leak-check"]
    result = CliRunner().invoke(app, options)
    assert "user = customer, item = sku (line 1 names them)" in result.stdout
    assert "not read  '' (an index), event, when, stars" in result.stdout
    assert "4, 0 left out, 1 repeat a pair or fall out by --k-core" in result.stdout
    found = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert found["read"]["columns"] == {"user": "customer", "item": "sku"}
