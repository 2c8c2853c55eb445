"""Lists for many users: as one by one, within caps, in every kind of table."""

from __future__ import annotations

import csv
import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Index, Seen, ShippedModel, Table
from cerp.cli import app
from cerp.data.ids import Ids
from cerp.errors import ConfigError, DataError
from cerp.runtime import Runtime, batch, load
from cerp.runtime.batch import Cap, Request, Rows, in_order, lists_in_blocks, lists_of_histories
from cerp.runtime.item_choice import ItemAttributes, read_items
from small_models import small_model
from small_neighbours import small_neighbours

USERS, ITEMS = 13, 37


def made(seed: int = 0, **changes: object) -> ShippedModel:
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-3, 4, size=(USERS + ITEMS, 3)).astype(np.float32)  # many equal scores
    taken = [np.sort(rng.choice(ITEMS, size=5, replace=False)) for _ in range(USERS)]
    model: dict[str, object] = {
        "facts": {},
        "users": Ids([f"u{k}" for k in range(USERS)]),
        "items": Ids(np.arange(100, 100 + ITEMS)),
        "head": "dot",
        "embedding": ComposedEmbedding((Table(Index("identity"), vectors),)),
        "seen": Seen(np.arange(0, 5 * USERS + 1, 5), np.concatenate(taken).astype(np.int32)),
        "titles": [f"Title, no. {k}" for k in range(ITEMS)],
    }
    return ShippedModel(**(model | changes))


def as_lists(runtime: Runtime, blocks) -> dict[int, list[tuple[object, float]]]:
    found: dict[int, list[tuple[object, float]]] = {}
    for rows in blocks:
        for user, item, rank, score in zip(*(column.tolist() for column in rows), strict=True):
            places = found.setdefault(user, [])
            places.append((runtime.items.values[item], score))
            assert rank == len(places)
    return found


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("bytes_of_scores", [1, 1000, 10**6])
def test_lists_of_everybody_are_those_of_each(workers: int, bytes_of_scores: int, monkeypatch):
    monkeypatch.setattr(batch, "SCORE_BYTES", bytes_of_scores)
    runtime = Runtime(made())
    users = np.arange(USERS, dtype=np.int32)
    found = as_lists(runtime, lists_in_blocks(runtime, users, Request(7), workers=workers))
    assert found == {user: runtime.recommend(f"u{user}", 7) for user in range(USERS)}


def test_what_was_taken_since_and_what_is_left_out_is_in_no_list():
    runtime = Runtime(made())
    excluded, candidates = np.int32([3, 9]), np.arange(0, ITEMS, 2, dtype=np.int32)
    request = Request(40, excluded=excluded, candidates=candidates, unseen_items=True)
    users = np.int32([4, 2])
    blocks = lists_in_blocks(runtime, users, request, {2: np.array([0, 6], dtype=np.int32)})
    found = as_lists(runtime, blocks)
    chosen = {100 + code for code in candidates.tolist()} - {103, 109}
    assert {item for item, _ in found[0]} == chosen - set(runtime.seen("u4"))
    assert {item for item, _ in found[1]} == chosen - set(runtime.seen("u2")) - {100, 106}


def test_someone_new_gets_the_list_of_their_items():
    runtime = Runtime(made())
    histories = [np.int32([1, 5]), np.int32([7])]
    found = as_lists(runtime, lists_of_histories(runtime, histories, Request(6)))
    assert found == {0: runtime.recommend_for([101, 105], 6), 1: runtime.recommend_for([107], 6)}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.integers(1, 12), st.integers(1, 3), st.integers(1, 9))
def test_a_capped_list_is_what_a_greedy_reader_of_the_whole_ranking_keeps(seed, k, most, kinds):
    runtime = Runtime(made(seed))
    categories = np.random.default_rng(seed).integers(-1, kinds, size=ITEMS).astype(np.int32)
    users = np.arange(USERS, dtype=np.int32)
    request = Request(k, cap=Cap(categories, most))
    found = as_lists(runtime, lists_in_blocks(runtime, users, request, workers=1))
    for user in range(USERS):
        counts: dict[int, int] = {}
        kept = []
        for item, score in runtime.recommend(f"u{user}", ITEMS):
            category = int(categories[item - 100])
            counts[category] = counts.get(category, 0) + 1
            if category < 0 or counts[category] <= most:
                kept.append((item, score))
        assert found.get(user, []) == kept[:k]


def test_a_cap_below_one_is_refused():
    with pytest.raises(ConfigError, match="at least 1 item of a category, not 0"):
        Cap(np.zeros(3, dtype=np.int32), 0)


def test_blocks_are_made_a_little_ahead_and_not_all_at_once():
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    first = list(islice(in_order(make, range(1000), 2), 3))
    assert first == [0, 1, 2]
    assert len(made) <= 3 + 2 * 2


def test_an_empty_block_is_no_row():
    runtime = Runtime(made())
    request = Request(3, candidates=np.int32([]))
    (rows,) = lists_in_blocks(runtime, np.int32([0]), request)
    assert isinstance(rows, Rows)
    assert len(rows.items) == 0


# As a command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    artifact.write(tmp_path / "model.cerp", made(), artifact.Encoding())
    return tmp_path / "model.cerp"


def written(path: Path) -> list[dict[str, object]]:
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        return pq.read_table(path).to_pylist()
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    if kind == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    rows = csv.DictReader(text.splitlines(), delimiter="," if kind == "csv" else "\t")
    typed = {"item": int, "rank": int, "score": float}
    return [{key: typed.get(key, str)(value) for key, value in row.items()} for row in rows]


def recommend(file: Path, *options: object) -> dict[str, Any]:
    arguments = ["recommend", str(file), *map(str, options), "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    "name", ["l.csv", "l.csv.gz", "l.tsv", "l.jsonl", "l.jsonl.gz", "l.parquet"]
)
def test_everybodys_lists_are_the_same_in_every_kind_of_table(file: Path, name: str):
    output = file.with_name(name)
    told = recommend(file, "--all-users", "-k", 4, "-o", output)
    assert (told["rows"], told["users"]) == (4 * USERS, USERS)
    runtime = Runtime(made())
    assert written(output) == [
        {"user": user, "item": item, "rank": rank, "score": score,
         "title": f"Title, no. {item - 100}"}
        for user in runtime.users.values
        for rank, (item, score) in enumerate(runtime.recommend(user, 4), start=1)
    ]  # fmt: skip
    assert {path.name for path in file.parent.iterdir()} == {"model.cerp", name}


def test_users_of_the_history_are_folded_in_after_those_of_the_model(file: Path):
    history = file.with_name("today.csv")
    history.write_text("user,item\nu3,101\nnew,105\nnew,999\nempty,999\n")
    output = file.with_name("lists.csv")
    told = recommend(file, "--all-users", "-k", 40, "-o", output, "--history", history)
    assert (told["folded_users"], told["skipped_users"], told["unknown_items"]) == (1, 1, 1)
    rows = written(output)
    runtime = Runtime(made())
    of_new = [row["item"] for row in rows if row["user"] == "new"]
    assert of_new == [place.item for place in runtime.recommend_for([105], 40)]
    assert 101 not in [row["item"] for row in rows if row["user"] == "u3"]


def test_someone_new_is_a_clear_no_to_a_model_that_scores_by_a_tower():
    with pytest.raises(ConfigError, match=r"scores by a tower \(an MLP\) cannot recommend from"):
        list(
            lists_of_histories(
                Runtime(small_model("mlp")), [np.array([1], dtype=np.int32)], Request(3)
            )
        )


def test_a_file_without_users_lists_everybody_of_the_history(tmp_path: Path):
    path = tmp_path / "items.cerp"
    artifact.write(path, small_neighbours(), artifact.Encoding())
    history, output = tmp_path / "today.csv", tmp_path / "lists.csv"
    runtime = load(path)
    first, second = runtime.items.values[:2].tolist()
    history.write_text(f"user,item\nann,{first}\nbo,{second}\n")
    told = recommend(path, "--all-users", "-k", 3, "-o", output, "--history", history)
    assert (told["users"], told["folded_users"]) == (2, 2)
    of_bo = [row["item"] for row in written(output) if row["user"] == "bo"]
    assert of_bo == [place.item for place in runtime.recommend_for([second], 3)]
    with pytest.raises(ConfigError):
        recommend(path, "--all-users", "-o", output)


def test_items_are_chosen_by_their_attributes_and_capped_by_category(file: Path):
    items = file.with_name("items.csv")
    lines = (f"{100 + k},{'shoes' if k % 2 else 'hats'},{k}" for k in range(ITEMS))
    items.write_text("\n".join(["item_id,category,price", *lines, "7777,shoes,1"]))
    by = ("--items", items, "--where", "category = 'shoes' and price < 20")
    found = recommend(file, "--user", "u1", "-k", 50, "--unseen-items", *by)["recommendations"]
    seen = Runtime(made()).seen("u1")
    assert {one["item"] for one in found} == {100 + k for k in range(1, 20, 2)} - set(seen)
    capped = recommend(
        *(file, "--user", "u1", "-k", 9, "--items", items, "--category", "category", "--most", 2)
    )["recommendations"]
    assert sorted(one["item"] % 2 for one in capped) == [0, 0, 1, 1]
    with pytest.raises(ConfigError, match="where=\"colour = 'red'\" cannot be applied"):
        recommend(file, "--user", "u1", "--items", items, "--where", "colour = 'red'")


def test_a_file_of_items_has_a_column_of_that_name_or_nothing_else(tmp_path: Path):
    ids = Ids([1, 2, 3])
    (tmp_path / "plain.txt").write_text("3\n1\n9\n")
    (tmp_path / "named.csv").write_text("why,item_id\nold,2\n")
    codes, unknown = read_items(tmp_path / "plain.txt", ids)
    assert (codes.tolist(), unknown) == ([0, 2], 1)
    assert read_items(tmp_path / "named.csv", ids).codes.tolist() == [1]
    with pytest.raises(DataError, match="no such file"):
        ItemAttributes(tmp_path / "none.csv", ids)


def test_the_most_similar_items_are_listed(file: Path):
    found = recommend(file, "--similar", "105", "-k", 3)
    assert [one["item"] for one in found["recommendations"]] == [
        place.item for place in Runtime(made()).similar_items(105, 3)
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--all-users", "--user", "u1"], "give exactly one of"),
        (["--all-users"], "belong together"),
        (["--user", "u1", "--where", "x"], "look at a file of items: --items FILE"),
        (["--user", "u1", "--items", "i.csv"], "--items needs --where to choose by"),
        (["--user", "u1", "--items", "i.csv", "--category", "x"], "--category brand --most 2"),
        (["--similar", "105", "--exclude", "i.csv"], "--similar looks at all items"),
        (["--user", "u1", "--history", "h.csv"], "--history belongs to"),
    ],
)
def test_options_that_do_not_go_together_are_named(file: Path, options: list[str], message: str):
    with pytest.raises(ConfigError, match=message):
        recommend(file, *options)
