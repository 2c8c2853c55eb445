"""Which assignment the default preset has, and what settings put in its place."""

from __future__ import annotations

import pytest

from cerp.choices import Assignment
from cerp.config import Config
from cerp.presets import (
    TAUGHT_ROWS,
    PresetName,
    default_teacher,
    preset,
    wanted_assignment,
    with_settings,
)


@pytest.mark.parametrize(
    ("backbone", "assignment"), [("lightgcn", "learned"), ("mf", "learned"), ("mlp", "hash")]
)
def test_rows_are_learned_where_that_was_better(backbone: str, assignment: Assignment):
    assert preset("default", backbone).assignment == assignment


@pytest.mark.parametrize("backbone", ["lightgcn", "mf"])
def test_a_hash_has_the_settings_it_always_had(backbone: str):
    assert preset("default", backbone, assignment="hash") == Config(backbone=backbone)


@pytest.mark.parametrize("method", ["ud", "qr", "pep", "full"])
def test_other_methods_learn_no_rows(method: str):
    assert preset("default", "lightgcn", method).assignment == "hash"


def test_the_paper_hashes():
    found = preset("paper", "lightgcn", assignment="learned")
    assert (found.assignment, found.hashing, found.ordering) == ("hash", "paper", "native")


@pytest.mark.parametrize("backbone", ["lightgcn", "mlp", "mf"])
def test_rates_and_decays_are_from_the_grids_of_the_paper(backbone: str):
    found = preset("paper", backbone)
    assert found.prune.gamma in (1e-4, 1e-3, 1e-2, 0.1, 1)
    for stage in (found.prune, found.train):
        assert stage.learning_rate in (1e-2, 1e-3, 1e-4)
        assert stage.weight_decay in (1e-5, 1e-6, 1e-7)


def test_learned_rows_have_no_penalty_and_hashed_ones_that_of_the_first_version():
    assert preset("default", "lightgcn").prune.gamma == 0
    assert preset("default", "lightgcn", assignment="hash").prune.gamma == 1e-3


def test_a_student_learns_its_rows_from_its_teacher():
    found = preset("default", "mf", "cerp", "lightgcn")
    assert (found.teacher, found.assignment) == ("lightgcn", "learned")


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, None),
        ({"assignment": "learned"}, "learned"),
        ({"ordering": "shuffled"}, "hash"),
        ({"hashing": "paper"}, "hash"),
        ({"ordering": "shuffled", "assignment": "learned"}, "learned"),
    ],
)
def test_an_order_of_ids_is_for_a_hash(settings: dict[str, str], wanted: str | None):
    assert wanted_assignment(settings) == wanted


FEWEST, MOST = TAUGHT_ROWS


@pytest.mark.parametrize("interactions", [FEWEST, MOST])
def test_a_model_without_a_graph_has_a_teacher_where_the_data_allow_it(interactions: int):
    assert default_teacher(preset("default", "mf"), "default", None, interactions) == "svd"


@pytest.mark.parametrize(
    ("config", "name", "teacher", "interactions"),
    [
        (preset("default", "mf"), "default", None, FEWEST - 1),
        (preset("default", "mf"), "default", None, MOST + 1),
        (preset("default", "mf"), "default", "none", FEWEST),
        (preset("default", "mf", teacher="als"), "default", "als", FEWEST),
        (preset("default", "mf", assignment="hash"), "default", None, FEWEST),
        (preset("paper", "mf"), "paper", None, FEWEST),
        (preset("default", "lightgcn"), "default", None, FEWEST),
        (preset("default", "mlp"), "default", None, FEWEST),
        (preset("default", "mf", "full"), "default", None, FEWEST),
    ],
)
def test_others_have_no_teacher_unless_asked_for(
    config: Config, name: PresetName, teacher: str | None, interactions: int
):
    assert default_teacher(config, name, teacher, interactions) is None


def test_none_is_no_teacher():
    found = with_settings(preset("default", "mf", teacher="none"), (), {"teacher": "none"})
    assert found == preset("default", "mf")
