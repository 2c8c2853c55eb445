"""A student learns what a teacher prefers: the loss worked out, and a run with a teacher."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import cerp
from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, DataError
from cerp.export.to_arrays import final_vectors
from cerp.models.batch import Batch
from cerp.runs.fit import fit_all, load_run
from cerp.training.distillation import TaughtObjective, preference_loss, taught
from cerp.training.objective import Objective

QUICK = {"dim": 8, "epochs": 2, "prune_epochs": 2, "verbose": False}


def splits() -> Splits:
    return synthetic(60, 40, 900).split(seed=0)


def test_the_loss_of_one_pair_by_hand():
    # The teacher prefers the positive by ln 3: with the chance 3/4. The student by ln 2: 2/3.
    scores = torch.tensor([[math.log(2), 0.0]])
    told = torch.tensor([[math.log(3), 0.0]])
    expected = -(0.75 * math.log(2 / 3) + 0.25 * math.log(1 / 3))
    assert preference_loss(scores, told).item() == pytest.approx(expected)


def test_nothing_is_better_than_the_teachers_own_preferences():
    told = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    scores = told.clone().requires_grad_()
    preference_loss(scores, told).backward()
    torch.testing.assert_close(scores.grad, torch.zeros(4, 3))


def test_without_a_teacher_the_objective_is_itself():
    objective = Objective(gamma=0.5)
    assert taught(objective, None, 3, torch.device("cpu")) is objective


def test_a_taught_objective_adds_the_teachers_pairs_and_keeps_the_rest():
    teacher = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    objective = taught(Objective(gamma=0.25, temperature=7.0), teacher, 2, torch.device("cpu"))
    assert isinstance(objective, TaughtObjective)
    assert (objective.gamma, objective.temperature) == (0.25, 7.0)
    batch = Batch(torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([[1], [0]]))
    # User 0 with items 0 and 1: 3 and 0; user 1 with items 1 and 0: 2 and 0.
    told = objective._teacher_scores(batch)
    assert told.tolist() == [[3.0, 0.0], [2.0, 0.0]]


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("student")
    cerp.fit(splits(), "60%", backbone="mf", teacher="lightgcn", output=folder, **QUICK)
    return folder


def test_the_teacher_of_a_run_is_a_run_of_its_own(student: Path):
    [teacher] = load_run(student / "teacher", splits())
    assert (teacher.config.method, teacher.config.backbone) == ("full", "lightgcn")
    [model] = load_run(student, splits())
    assert model.config.assignment == "learned"
    assert model.recommend(0) == cerp.load(student / "model-60pct.cerp").recommend(0)


def test_a_run_knows_what_its_teacher_had(student: Path):
    [teacher] = load_run(student / "teacher", splits())
    [model] = load_run(student, splits())
    assert model.facts.search is not None
    told = model.facts.search["teacher"]
    assert told == {"name": "lightgcn", "valid_ndcg@10": teacher.metrics["valid"]["ndcg@10"]}


def test_a_report_says_what_the_teacher_had(student: Path):
    page = student / "report.html"
    cerp.report([student], page)
    told = re.sub(r"<[^>]*>", "", page.read_text())
    assert "learned from a teacher, lightgcn: on validation the teacher has NDCG@10 0." in told


def test_a_finished_run_or_a_file_of_vectors_can_teach(student: Path, tmp_path: Path):
    by_run = cerp.fit(splits(), "60%", backbone="mf", teacher=str(student / "teacher"), **QUICK)
    [teacher] = load_run(student / "teacher", splits())
    tables = final_vectors(teacher.recommender)
    np.save(tmp_path / "vectors.npy", np.concatenate([tables.users, tables.items]))
    by_file = cerp.fit(
        splits(), "60%", backbone="mf", teacher=str(tmp_path / "vectors.npy"), **QUICK
    )
    assert by_file.metrics == by_run.metrics


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ("mlp", "are no dot products"),
        ("nowhere", "holds no finished run"),
        ("missing.npy", "is no readable array"),
    ],
)
def test_what_cannot_teach_is_refused(teacher: str, message: str):
    with pytest.raises((ConfigError, DataError), match=message):
        cerp.fit(splits(), "60%", backbone="mf", teacher=teacher, **QUICK)


def test_vectors_of_another_shape_are_refused(tmp_path: Path):
    np.save(tmp_path / "short.npy", np.zeros((99, 8), dtype=np.float32))
    with pytest.raises(DataError, match=r"the shape \(99, 8\); a student of dimension 8 needs"):
        cerp.fit(splits(), "60%", backbone="mf", teacher=str(tmp_path / "short.npy"), **QUICK)


def test_a_teacher_needs_codes_to_teach():
    config = Config(backbone="mf", teacher="lightgcn", dim=8)
    with pytest.raises(ConfigError, match="train cerp with assignment=learned"):
        fit_all(splits(), config, RunOptions(quiet=True))
