"""Who looks on is told of every stage, every epoch and the end, as the curves have it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import cerp
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.synthetic import synthetic
from cerp.runs.fit import fit_all
from cerp.training.tensorboard import TensorBoard

CONFIG = Config(
    backbone="mf",
    budgets=("80%",),
    dim=8,
    ordering="degree",
    prune=PruneConfig(epochs=2),
    train=TrainConfig(epochs=3, evaluate_every=2),
)


class Notes(cerp.Callback):
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.epochs: list[dict[str, Any]] = []
        self.results: list[Mapping[str, Any]] = []

    def on_stage(self, stage: str) -> None:
        self.stages.append(stage)

    def on_epoch(self, stage: str, epoch: float, figures: Mapping[str, float]) -> None:
        self.epochs.append({"stage": stage, "epoch": epoch, **figures})

    def on_end(self, result: Mapping[str, Any]) -> None:
        self.results.append(result)


@pytest.fixture
def splits():
    return synthetic(60, 40, 600).split()


def test_a_callback_is_told_what_the_folder_keeps(splits, tmp_path: Path):
    notes = Notes()
    fit_all(splits, CONFIG, RunOptions(folder=tmp_path / "run", quiet=True, callbacks=(notes,)))
    assert notes.stages == ["prune", "train 80%"]
    curves = (tmp_path / "run" / "curves.jsonl").read_text().splitlines()
    assert notes.epochs == [json.loads(line) for line in curves]
    assert notes.results == [json.loads((tmp_path / "run" / "metrics.json").read_text())]


def test_fit_tells_without_a_folder_too(splits):
    notes = Notes()
    cerp.fit(splits, config=CONFIG, verbose=False, callbacks=[notes])
    assert [row["epoch"] for row in notes.epochs if row["stage"] == "train 80%"] == [1, 2, 3]
    assert len(notes.results) == 1


@pytest.mark.filterwarnings("ignore")  # of tensorboard's own imports
def test_tensorboard_has_every_curve_and_figure(splits, tmp_path: Path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    options = RunOptions(quiet=True, callbacks=(TensorBoard(tmp_path),))
    [model] = fit_all(splits, CONFIG, options)
    found = events.EventAccumulator(str(tmp_path))
    found.Reload()
    assert {"prune/loss", "train 80%/valid_ndcg@10", "80%/test/ndcg@10"} <= set(
        found.Tags()["scalars"]
    )
    (point,) = found.Scalars("80%/test/ndcg@10")
    assert point.value == pytest.approx(model.metrics["test"]["ndcg@10"])
    assert [point.step for point in found.Scalars("train 80%/loss")] == [1, 2, 3]
