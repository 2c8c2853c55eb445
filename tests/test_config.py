from __future__ import annotations

from dataclasses import replace

import pytest

from cerp.cli.options import load_splits
from cerp.config import LARGEST_SEED, Config, RunOptions, TrainConfig, doubts
from cerp.errors import ConfigError


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1"])
def test_devices_have_names(device: str):
    assert RunOptions(device=device).device == device


@pytest.mark.parametrize("device", ["foo", "meta", "auto", "cuda:", "cuda:x", ""])
def test_what_is_no_device_is_refused(device: str):
    with pytest.raises(ConfigError, match=r"device is '.*'; choose cpu, cuda"):
        RunOptions(device=device)


@pytest.mark.parametrize("seed", [-1, LARGEST_SEED + 1])
def test_what_is_no_seed_is_refused(seed: int):
    for build in (lambda: Config(seed=seed), lambda: load_splits("synthetic", seed=seed)):
        with pytest.raises(ConfigError, match=rf"seed is {seed}; give a number from 0"):
            build()


def test_budgets_lose_the_blanks_around_them():
    assert Config(budgets=(" 90%", "400KB ")).budgets == ("90%", "400KB")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"budgets": ["90%", " 90%"]}, r"'90%' is given more than once; give each"),
        ({"buckets": 0}, "buckets is 0; it must be above 0"),
        ({"dim": 16.5}, r"dim is 16\.5; it must be a whole number"),
        ({"train": {"epochs": 2.5}}, r"epochs is 2\.5; it must be a whole number"),
        ({"train": {"clip_norm": 0}}, "clip_norm is 0; it must be above 0"),
        ({"train": {"epoch_size": 0}}, "epoch_size is 0; it must be above 0"),
        ({"train": {"validation_users": 0}}, "validation_users is 0; it must be above 0"),
        ({"train": {"weight_decay": -0.1}}, r"weight_decay is -0\.1; it must be at least 0"),
        ({"prune": {"clip_norm": -1}}, "clip_norm is -1; it must be above 0"),
        ({"prune": {"weight_decay": float("nan")}}, "weight_decay is nan; it must be a number"),
        (
            {"prune": {"threshold_learning_rate": 0}},
            "threshold_learning_rate is 0; it must be above 0",
        ),
        ({"train": 5}, r"config\.train is 5; it must be a table of entries"),
        ({"dim": "wide"}, "dim is 'wide'; it must be a whole number"),
        ({"dim": True}, "dim is True; it must be a whole number"),
        ({"train": {"learning_rate": "fast"}}, "learning_rate is 'fast'; it must be a number"),
        ({"rewind": "twice"}, "rewind is 'twice'; choose one of initial, pruned"),
        ({"prune": {"dense_share": 1}}, "dense_share is 1; it must be below 1"),
        ({"prune": {"gamma": 1.5}}, r"gamma is 1\.5; it must be at most 1"),
    ],
)
def test_impossible_entries_are_refused_by_name(entries: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        Config.from_dict(entries)


@pytest.mark.parametrize("size", ["abc", "0", "3000", "", "99%", "0KB", "-3KB"])
def test_a_file_size_that_is_none_is_refused_even_where_it_is_the_budget(size: str):
    with pytest.raises(ConfigError, match=rf"max_file_size '{size}' .*2MB"):
        Config(budgets=(size,), max_file_size=size)


def test_a_hash_has_two_codebooks():
    with pytest.raises(ConfigError, match=r"a hash has two codebooks, not 4; .*assignment=learned"):
        Config(codebooks=4)
    assert Config(codebooks=2).codebooks == 2
    assert Config(assignment="learned", codebooks=8).codebooks == 8


@pytest.mark.parametrize(("rate", "word"), [(3.0, "diverges"), (1e-9, "stays as it starts")])
def test_a_learning_rate_that_cannot_be_is_doubted(rate: float, word: str):
    (doubt,) = doubts(replace(Config(), train=TrainConfig(learning_rate=rate)))
    assert "the learning rate of training" in doubt
    assert word in doubt
    assert doubts(Config()) == []
