"""Runs on a split with users and items that training never saw."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cerp
from cerp.artifact import Encoding, decode, section_bytes
from cerp.cli import app
from cerp.config import Config, RunOptions
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.cold_start import users_without_rows, with_popularity
from cerp.evaluation.evaluate import evaluate
from cerp.presets import preset, with_settings
from cerp.runs.fit import fit_all
from cerp.runs.fitted_model import FittedModel
from cerp.runtime import Runtime

NEW_USERS, NEW_ITEMS = 8, 3


@pytest.fixture(scope="module")
def splits() -> Splits:
    """60 users and 40 items; the last 8 users and 3 items come after training."""
    rng = np.random.default_rng(0)
    taken = rng.random((60, 40)) < np.linspace(0.6, 0.1, 40)
    taken[:, 0] = True
    label = rng.choice([1, 1, 1, 2, 3], size=taken.shape)
    label[:, -NEW_ITEMS:] = 3
    label[-NEW_USERS:] = 2 + (np.arange(40) % 2)
    label[0, :-NEW_ITEMS] = 1
    users, items = Ids.range(60), Ids.range(40)
    parts = [
        Interactions.from_codes(*np.nonzero(taken & (label == part)), users=users, items=items)
        for part in (1, 2, 3)
    ]
    return Splits(*parts)


def config(backbone: str, method: str = "cerp") -> Config:
    settings = {"dim": 8, "epochs": 1, "prune_epochs": 1}
    base = preset("default", backbone, method)
    return with_settings(base, () if method == "filter" else ("50%",), settings)


def fitted(splits: Splits, chosen: Config, folder: Path | None = None) -> FittedModel:
    return fit_all(splits, chosen, RunOptions(folder=folder, quiet=True))[0]


@pytest.mark.parametrize("name", ["lightgcn", "mf", "mlp", "filter"])
def test_a_run_its_model_and_its_file_give_such_users_popularity(splits: Splits, name: str):
    chosen = config("lightgcn", "filter") if name == "filter" else config(name)
    model = fitted(splits, chosen)
    new = users_without_rows(splits.train)
    assert len(new) == NEW_USERS
    popularity = evaluate(Popularity(splits.train), splits, users=new).summary()
    runtime = Runtime(decode(model.file()))
    for scorer in (model, model.scorer(), runtime):
        assert evaluate(scorer, splits, users=new).summary() == popularity
    whole = evaluate(runtime, splits)
    assert model.metrics["test"]["ndcg@10"] == pytest.approx(whole.mean["ndcg@10"], abs=1e-6)
    assert model.metrics["test"]["cold_users"] == whole.cold_users == NEW_USERS
    assert model.metrics["test"]["unseen_items"] == NEW_ITEMS
    assert "users without training rows get popularity" in runtime.model.facts["conventions"]
    assert model.recommend(int(new[0]), 5) == model.recommend_for([], 5)


def test_a_file_without_seen_items_is_judged_alike(splits: Splits):
    model = fitted(splits, config("mf"))
    file = model.file(Encoding(seen=False))
    assert section_bytes(file)["cold start"] > 0
    small = evaluate(Runtime(decode(file)), splits).summary()
    assert small == evaluate(Runtime(decode(model.file())), splits).summary()


def test_a_split_of_which_training_saw_everything_is_as_before():
    everything = synthetic(60, 40, 900, seed=0).split(seed=0)
    assert len(users_without_rows(everything.train)) == 0
    assert everything.train.item_counts.min() > 0
    model = fitted(everything, config("mf"))
    assert "popularity" not in decode(model.file()).facts["conventions"]
    assert "cold start" not in section_bytes(model.file(Encoding(seen=False)))
    assert with_popularity(model, everything.train) is model


def test_the_commands_say_how_many_there_were(
    splits: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "split"
    splits.save(folder)
    app(["evaluate", "popularity", "--data", str(folder)], standalone_mode=False)
    said = " ".join(capsys.readouterr().err.split())
    assert "8 of them without training rows, who get the popular items" in said
    assert "3 items that training never saw are not recommended" in said
    app(["evaluate", "popularity", "-d", str(folder), "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert (found["cold_users"], found["unseen_items"]) == (NEW_USERS, NEW_ITEMS)


def test_recommend_takes_unseen_items_on_the_command_line(
    splits: Splits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "model.cerp"
    fitted(splits, config("mf")).save(path)
    listed = []
    for options in ([], ["--unseen-items"]):
        asked = ["recommend", str(path), "--user", "59", "-k", "40", "--json", *options]
        app(asked, standalone_mode=False)
        places = json.loads(capsys.readouterr().out)["recommendations"]
        listed.append({place["item"] for place in places})
    assert listed[1] - listed[0] == {37, 38, 39}
    assert len(cerp.load(path).recommend_for([], 50)) == 37
