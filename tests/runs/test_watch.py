"""A training that is told to stop: it says why, and goes on to the same end when resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cerp.config import Config, Progress, PruneConfig, RunOptions, TrainConfig
from cerp.data.synthetic import synthetic
from cerp.errors import StoppedError
from cerp.runs.fit import fit_all

CONFIG = Config(
    backbone="mf",
    budgets=("80%",),
    dim=8,
    ordering="degree",
    prune=PruneConfig(epochs=1),
    train=TrainConfig(epochs=4, evaluate_every=1, batch_size=256),
)
QUIET = RunOptions(quiet=True)


def test_a_stopped_training_is_resumed_to_the_end_of_one_that_was_not(tmp_path: Path):
    splits = synthetic(120, 80, 1500).split(seed=0)
    [whole] = fit_all(splits, CONFIG, replace(QUIET, folder=tmp_path / "whole"))
    seen: list[Progress] = []

    def watch(progress: Progress) -> str | None:
        seen.append(progress)
        return "enough" if progress.share > 0.5 and progress.score is not None else None

    stopped = replace(QUIET, folder=tmp_path / "stopped", watch=watch)
    with pytest.raises(StoppedError, match="enough"):
        fit_all(splits, CONFIG, stopped)
    assert seen[0].score is None  # while pruning nothing is judged
    assert 0.5 < seen[-1].share < 1
    [model] = fit_all(splits, CONFIG, replace(stopped, watch=None, resume=True))
    assert model.file() == whole.file()
    assert model.metrics == whole.metrics


def test_a_run_that_may_not_read_the_test_part_is_judged_on_validation_alone(tmp_path: Path):
    splits = synthetic(120, 80, 1500).split(seed=0)
    [model] = fit_all(splits, CONFIG, replace(QUIET, reads_test=False))
    assert list(model.metrics) == ["valid"]
