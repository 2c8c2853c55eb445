"""Points of a search space, what they stand for, and when they are at an edge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cerp.comparison.search_space import SHARED, Range, edges, point_of, settings_of
from cerp.comparison.variants import nested, variants
from cerp.config import Config, TrainConfig
from cerp.presets import preset

POINT = {
    "train.learning_rate": 3e-3,
    "decay": "none",
    "decay.l2": 1e-6,
    "decay.decoupled": 0.05,
    "train.schedule": "cosine",
}


@pytest.mark.parametrize(
    ("kind", "optimizer", "decay"),
    [("none", "adam", 0.0), ("l2", "adam", 1e-6), ("decoupled", "adamw", 0.05)],
)
def test_a_point_names_one_decay_for_training_and_pruning(kind: str, optimizer: str, decay: float):
    assert settings_of({**POINT, "decay": kind}) == {
        "train.learning_rate": 3e-3,
        "train.schedule": "cosine",
        "train.optimizer": optimizer,
        "train.weight_decay": decay,
        "prune.optimizer": optimizer,
        "prune.weight_decay": decay,
    }


def test_a_preset_has_a_place_in_the_space():
    config = preset("default", "lightgcn", "cerp")
    settings = settings_of(point_of(config, SHARED))
    assert settings["train.optimizer"] == "adamw"
    assert settings["train.weight_decay"] == config.train.weight_decay
    assert settings["train.learning_rate"] == config.train.learning_rate
    plain = settings_of(point_of(Config(), SHARED))
    assert (plain["train.optimizer"], plain["train.weight_decay"]) == ("adam", 0.0)
    coupled = replace(Config(), train=TrainConfig(weight_decay=1e-5))
    assert settings_of(point_of(coupled, SHARED))["train.weight_decay"] == 1e-5


def test_every_variant_can_be_searched_from_its_preset():
    for name, one in variants().items():
        config = preset("default", "mf", one.method)
        point = point_of(config, SHARED | one.space)
        assert Config.from_dict(config.to_dict() | {"method": one.method}), name
        assert nested(settings_of(point))["train"]["learning_rate"] > 0


def test_only_numbers_near_an_end_that_is_open_are_at_an_edge():
    assert edges(POINT, SHARED) == {}
    # A twentieth of the logarithm of 100: a factor of 1.26.
    assert edges({**POINT, "train.learning_rate": 3.7e-4}, SHARED) == {
        "train.learning_rate": pytest.approx(1e-4)
    }
    assert edges({**POINT, "train.learning_rate": 3.9e-4}, SHARED) == {}
    assert edges({**POINT, "train.learning_rate": 0.09}, SHARED) == {
        "train.learning_rate": pytest.approx(0.27)
    }


def test_a_decay_is_at_its_edge_only_where_it_was_chosen_and_never_for_being_small():
    strong = {**POINT, "decay.l2": 1e-4}
    assert edges(strong, SHARED) == {}
    assert edges({**strong, "decay": "l2"}, SHARED) == {"decay.l2": pytest.approx(3e-4)}
    assert edges({**POINT, "decay": "l2", "decay.l2": 1e-7}, SHARED) == {}


def test_words_have_no_edge():
    space = {**SHARED, "rewind": ("pruned", "initial"), "prune.gamma": Range(1e-3, 1e-1)}
    assert edges({**POINT, "rewind": "initial", "prune.gamma": 1e-2}, space) == {}
