"""`cerp.fit`: the same words as the command line, and one way to say each thing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cerp
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError
from cerp.presets import WORDS, preset, with_settings

QUICK = {"dim": 8, "epochs": 1, "prune_epochs": 1, "ordering": "degree"}


def splits() -> Splits:
    return synthetic(60, 40, 600).split(seed=0)


def quick(**given: object) -> cerp.FittedModel:
    return cerp.fit(splits(), **{"backbone": "mf", "verbose": False, **QUICK, **given})


def test_settings_change_the_preset_of_the_method_and_leave_the_rest_of_it():
    # Full size trains longer and slower by its preset, whatever the dimension.
    config = with_settings(preset("default", "mf", "full"), (), {"dim": 16})
    assert (config.dim, config.train.epochs, config.train.learning_rate) == (16, 150, 3e-3)
    assert quick(method="full").config.train.learning_rate == 3e-3


def test_a_config_with_anything_beside_it_is_refused_by_name():
    # It used to be trained with the settings of another method.
    with pytest.raises(ConfigError, match="a config says everything, and method is given beside"):
        cerp.fit(splits(), config=Config(dim=16), method="full")
    with pytest.raises(ConfigError, match="budget, dim is given beside"):
        cerp.fit(splits(), "90%", config=Config(), dim=4)


def test_a_config_alone_is_what_is_trained():
    config = Config(
        method="ud",
        backbone="mf",
        budgets=("80%",),
        dim=8,
        train=TrainConfig(epochs=1),
        prune=PruneConfig(epochs=1),
        seed=7,
    )
    assert cerp.fit(splits(), config=config, verbose=False).config == config


def test_fit_refuses_more_budgets_than_it_gives_models():
    with pytest.raises(ConfigError, match=r"has 2 budgets; give one, or call .*fit_all"):
        cerp.fit(splits(), config=Config(budgets=("80%", "90%")))


def test_an_unknown_setting_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match=r"no setting 'epoch'; there are: .*epochs"):
        quick(epoch=3)


@pytest.mark.parametrize("word", sorted(WORDS))
def test_every_word_names_entries_of_the_configuration(word: str):
    for path in WORDS[word]:
        part, _, name = path.rpartition(".")
        assert hasattr(getattr(Config(), part) if part else Config(), name)


def test_a_file_size_alone_is_the_only_limit():
    model = quick(max_file_size="9KB")
    assert model.budget == "9KB"
    assert model.facts.file_bytes is not None
    assert model.facts.file_bytes <= 9000
    assert quick(budget="80%", max_file_size="9KB").budget == "80%"


def test_a_file_that_is_not_split_is_split_and_that_is_said(capsys: pytest.CaptureFixture[str]):
    data = synthetic(60, 40, 600)
    model = cerp.fit(data, "80%", backbone="mf", seed=3, **QUICK)
    assert model.splits.fingerprint == data.split(seed=3).fingerprint
    said = capsys.readouterr().err
    assert "split at random by seed 3: " in said
    assert f"{len(model.splits.train):,} interactions to train" in said


def test_a_frame_is_read_and_split():
    pandas = pytest.importorskip("pandas")
    data = synthetic(60, 40, 600)
    frame = pandas.DataFrame(
        {"user": data.users.decode(data.user), "item": data.items.decode(data.item)}
    )
    model = cerp.fit(frame, "80%", backbone="mf", verbose=False, **QUICK)
    assert model.splits.num_users == 60


def test_a_run_goes_on_only_when_told_to(tmp_path: Path):
    first = quick(budget="80%", output=tmp_path)
    with pytest.raises(ConfigError, match="holds this run already; give resume=True"):
        quick(budget="80%", output=tmp_path)
    again = quick(budget="80%", output=tmp_path, resume=True)
    assert again.facts == first.facts


def test_raw_ids_without_a_test_part_have_nothing_to_give_away(tmp_path: Path):
    # It used to end in an error after all of the training.
    settings = QUICK | {"backbone": "mf", "ordering": "native", "verbose": False}
    cerp.fit(splits().without_test(), budget="80%", output=tmp_path, **settings)
    assert json.loads((tmp_path / "metrics.json").read_text())["id_leak"] is None


def test_a_fitted_model_answers_as_its_file_does_and_is_judged_alike(tmp_path: Path):
    model = quick(budget="80%")
    model.save(tmp_path / "model.cerp")
    runtime = cerp.load(tmp_path / "model.cerp")
    user, item = model.splits.users.decode([0])[0], model.splits.items.decode([0])[0]
    assert model.recommend(user, 3) == runtime.recommend(user, 3)
    assert model.recommend_many([user, user], 3) == runtime.recommend_many([user, user], 3)
    assert model.recommend_for([item], 3) == runtime.recommend_for([item], 3)
    assert model.similar_items(item, 3) == runtime.similar_items(item, 3)
    mine, theirs = (cerp.evaluate(one, model.splits) for one in (model, runtime))
    np.testing.assert_allclose(mine.per_user["ndcg@10"], theirs.per_user["ndcg@10"], atol=1e-6)
    assert mine.mean["ndcg@10"] == model.metrics["test"]["ndcg@10"]


def test_a_model_says_what_it_is_in_a_few_lines():
    told = repr(quick(budget="80%"))
    assert told.startswith("FittedModel(cerp at 80%, mf, dim 8, seed 0)\n  60 users x 40 items; ")
    assert "test NDCG@10 0." in told
    assert len(told.splitlines()) == 3


def test_a_device_is_refused_as_on_the_command_line():
    with pytest.raises(ConfigError, match="device is 'tpu'; choose cpu, cuda"):
        quick(device="tpu")
    assert replace(RunOptions(), device="cpu").device == "cpu"
