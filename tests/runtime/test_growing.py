"""A model that takes in new rows: who was there stays who they were, who is new stands near."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, Seen, ShippedModel, Table
from cerp.cli import app
from cerp.cli.later import model_in
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError, DataError
from cerp.runs.warm import can_be_warm, warmed
from cerp.runtime import Runtime, load
from cerp.runtime.growing import grow
from cerp.runtime.vectors import vectors_of
from small_filters import small_filter, small_mixture, small_sums_mixture
from small_models import coded_model, small_model

MODELS = {
    "hashed mf": small_model("mf"),
    "hashed mlp": small_model("mlp"),
    "coded mf": coded_model("mf"),
    "coded lightgcn": coded_model("lightgcn"),
    "propagated": small_model("propagated"),
    "mixture": small_mixture("mf"),
    "filter": small_filter(),
    "sums beside a filter": small_sums_mixture(),
}


def rows_for(model: ShippedModel) -> Interactions:
    """Two new users, below and above those there, and a new item between them."""
    items = model.items.values
    new_item = int(items[3]) + 1
    assert new_item not in items
    user = [7, 7, 999, 999, 100, 101]
    item = [items[0], items[5], items[5], new_item, new_item, items[20]]
    return Interactions.from_ids(user, item)


def composed(model: ShippedModel, user: int) -> np.ndarray:
    """The vector of a user before any propagation."""
    plain = replace(model, layers=0, filter=None)
    return vectors_of(plain).users(plain.users.encode([user]))[0]


@pytest.mark.parametrize("name", MODELS)
def test_a_grown_model_is_a_file_that_knows_everybody(name: str):
    model = MODELS[name]
    new = rows_for(model)
    grown = grow(model, new)
    assert (grown.new_users, grown.new_items) == (2, 1)
    assert grown.new_interactions + grown.repeated == len(new)
    again = artifact.decode(artifact.encode(grown.model, Encoding()))
    runtime = Runtime(again)
    assert runtime.users.values.tolist() == [7, *range(100, 125), 999]
    assert set(runtime.seen(999)) == {int(model.items.values[5]), int(model.items.values[3]) + 1}
    assert set(runtime.seen(100)) >= set(Runtime(model).seen(100))
    assert len(runtime.recommend(999, 5)) == 5
    assert runtime.titles[runtime.items.encode([model.items.values[9]])[0]] == "Title 09"


def test_items_keep_their_rows_and_count_by_how_often_they_are_taken_now():
    model = MODELS["sums beside a filter"]
    grown = grow(model, rows_for(model)).model
    before, after = (
        dict(zip(one.items.values.tolist(), vectors_of(one).items.tolist(), strict=True))
        for one in (model, grown)
    )
    assert {item: after[item] for item in before} == before
    takers = np.bincount(grown.seen.items, minlength=len(grown.items))
    assert grown.sums.popularity.tolist() == np.floor(8 * np.log2(1 + takers)).tolist()
    assert not can_be_warm(grown)


@pytest.mark.parametrize("name", ["hashed mf", "hashed mlp", "coded mf", "coded lightgcn"])
def test_who_was_there_keeps_their_rows_and_no_value_is_added(name: str):
    model = MODELS[name]
    grown = grow(model, rows_for(model)).model
    for user in (100, 113, 124):
        assert composed(grown, user).tolist() == composed(model, user).tolist()
    before, after = (
        [np.count_nonzero(table.stored) for table in one.embedding.tables] for one in (model, grown)
    )
    assert before == after


def test_a_filter_that_grows_is_the_filter_of_all_rows():
    model = small_filter()
    grown = grow(model, rows_for(model))
    fresh = replace(
        model,
        users=grown.train.users,
        items=grown.train.items,
        titles=None,
        seen=Seen(grown.train.user_offsets, grown.train.item),
    )
    users = np.arange(27, dtype=np.int32)
    assert np.array_equal(Runtime(grown.model).score_all(users), Runtime(fresh).score_all(users))


def test_a_new_entity_has_the_mean_direction_of_its_neighbours_at_their_length():
    # Users a and b took x, b also y. The new user took x alone: a and b count 1/2 each.
    vectors = np.float32([[3, 0], [0, 3], [1, 1], [2, 0]])
    model = ShippedModel(
        facts={"metrics": {"test": {"ndcg@10": 0.5}}},
        users=Ids(["a", "b"]),
        items=Ids(["x", "y"]),
        head="dot",
        embedding=ComposedEmbedding((Table(Index("identity"), vectors),)),
        seen=Seen(np.array([0, 1, 3]), np.int32([0, 0, 1])),
    )
    grown = grow(model, Interactions.from_ids(["c", "c"], ["x", "z"]))
    found = vectors_of(grown.model)
    # Half of (3, 0) and (0, 3) is (1.5, 1.5), of length 2.12; theirs is 3.
    assert found.users(np.int32([2]))[0] == pytest.approx([3 / 2**0.5, 3 / 2**0.5])
    # The only user of z is new, and took x beside it: z is where x is.
    assert found.items.tolist() == [[1, 1], [2, 0], [1, 1]]
    assert grown.model.facts["updates"] == 1
    assert "metrics" not in grown.model.facts


def test_new_rows_are_those_whose_sum_comes_closest():
    # Books on different scales: the greedy choice is the best one.
    books = [np.float32([[0, 0], [10, 0], [0, 10]]), np.float32([[0, 0], [1, 0], [0, 1]])]
    codes = [np.int32([1, 2, 0, 0]), np.int32([2, 1, 0, 0])]
    tables = tuple(
        Table(Index("coded", 3, codes=code), book) for code, book in zip(codes, books, strict=True)
    )
    model = ShippedModel(
        facts={},
        users=Ids(["a", "b"]),
        items=Ids(["x", "y"]),
        head="dot",
        embedding=ComposedEmbedding(tables),
        seen=Seen(np.array([0, 1, 2]), np.int32([0, 1])),
    )
    grown = grow(model, Interactions.from_ids(["c"], ["x"])).model  # where a is: (10, 1)
    assert [table.index.codes[2] for table in grown.embedding.tables] == [1, 2]


def test_ids_of_another_kind_and_models_without_a_history_are_refused():
    model = small_model()
    with pytest.raises(DataError, match=r"user ids of the model are integers, those .* strings"):
        grow(model, Interactions.from_ids(["a", "b"], [1, 2]))
    with pytest.raises(ConfigError, match="does not say what users have seen"):
        grow(replace(model, seen=None), Interactions.from_ids([1, 2], [1, 2]))


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
def test_training_further_changes_stored_values_and_nothing_else(backbone: str):
    model = coded_model(backbone)
    grown = grow(model, rows_for(model))
    found = warmed(grown.model, grown.train, epochs=1, quiet=True)
    for before, after in zip(grown.model.embedding.tables, found.embedding.tables, strict=True):
        assert np.array_equal(before.stored, after.stored)
        assert not np.array_equal(before.weight, after.weight)
        assert np.array_equal(before.index.codes, after.index.codes)
    assert not can_be_warm(small_model("propagated"))


def test_of_a_run_with_several_models_the_last_is_meant(tmp_path: Path):
    for name in ("model-50pct.cerp", "model-90pct.cerp"):
        artifact.write(tmp_path / name, coded_model(), Encoding())
    with pytest.raises(ConfigError, match=r"2 model files \(model-50pct.cerp, model-90pct.cerp\)"):
        model_in(tmp_path)
    (tmp_path / "metrics.json").write_text('{"models": [{"budget": "90%"}, {"budget": "50%"}]}')
    assert model_in(tmp_path) == tmp_path / "model-50pct.cerp"
    assert model_in(tmp_path, "90%") == tmp_path / "model-90pct.cerp"
    with pytest.raises(ConfigError, match="has no model for '70%'"):
        model_in(tmp_path, "70%")


def test_the_command_writes_a_file_and_the_next_day_is_judged(tmp_path: Path):
    model = coded_model("lightgcn")
    artifact.write(tmp_path / "model-50pct.cerp", model, Encoding())
    items = model.items.values
    (tmp_path / "new.csv").write_text(f"user,item\n7,{items[0]}\n100,{items[1]}\n101,77777\n")
    options = ["update", str(tmp_path), str(tmp_path / "new.csv"), "--epochs", "0", "--json"]
    result = CliRunner().invoke(app, [*options, "-o", str(tmp_path / "next")])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["model"] == str(tmp_path / "next" / "model-50pct.cerp")
    assert (told["users"], told["new_users"], told["new_items"]) == (26, 1, 1)
    assert 77777 in load(told["model"]).items
    unseen = next(item for item in items.tolist() if item not in Runtime(model).seen(105))
    later = tmp_path / "later.csv"
    later.write_text(f"user,item\n105,{unseen}\n105,88888\n5,{items[0]}\n7,{items[0]}\n")
    judged = ["evaluate", told["model"], "popularity", "--data", str(later), "--json"]
    result = CliRunner().invoke(app, judged, catch_exceptions=False)
    found = json.loads(result.stdout)["later"]
    assert found == {"judged": 1, "repeated": 1, "of_new_users": 1, "of_new_items": 1,
                     "new_users": 1, "new_items": 1}  # fmt: skip


def test_a_day_with_columns_of_other_names_joins_and_is_judged_where_they_are_said(tmp_path: Path):
    path, day = tmp_path / "model.cerp", tmp_path / "day.csv"
    model = coded_model("lightgcn")
    artifact.write(path, model, Encoding())
    unseen = next(one for one in model.items.values.tolist() if one not in Runtime(model).seen(105))
    day.write_text(f"kind|artikel|kunde\nbuy|{unseen}|105\nlook|77777|106\n")
    said = ["--user", "kunde", "--item", "1", "--delimiter", "|", "--where", "kind = 'buy'"]
    grown = ["update", str(path), str(day), "-o", str(tmp_path / "next.cerp"), *said, "--json"]
    result = CliRunner().invoke(app, grown, catch_exceptions=False)
    told = json.loads(result.stdout)
    assert (told["new_interactions"], told["new_users"], told["new_items"]) == (1, 0, 0)
    judged = ["evaluate", str(path), "--data", str(day), *said, "--json"]
    result = CliRunner().invoke(app, judged, catch_exceptions=False)
    assert json.loads(result.stdout)["later"]["judged"] == 1
    blank = [*grown[:3], "-o", str(tmp_path / "x.cerp"), *said[:-1], "kind = 'return'"]
    assert "no row is left" in str(CliRunner().invoke(app, blank).exception)
    nothing = CliRunner().invoke(app, ["evaluate", str(path), "--user", "kunde"])
    assert "says how data is read, and none is given" in str(nothing.exception)
