"""Runs whose vectors are trained with the graph filter in their scores."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from cerp.artifact import decode
from cerp.config import Config, Progress, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.errors import ConfigError, StoppedError
from cerp.evaluation.evaluate import evaluate
from cerp.runs.fit import fit_all
from cerp.runtime import Runtime
from cerp.training.beside_filter import START

CONFIG = Config(
    backbone="lightgcn",
    budgets=("80%",),
    dim=8,
    ordering="degree",
    mix="together",
    prune=PruneConfig(epochs=1),
    train=TrainConfig(epochs=4, evaluate_every=1, batch_size=512),
)
QUIET = RunOptions(quiet=True)


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


def test_a_stopped_run_goes_on_to_the_end_of_one_that_was_not(splits: Splits, tmp_path: Path):
    [whole] = fit_all(splits, CONFIG, replace(QUIET, folder=tmp_path / "whole"))

    def watch(progress: Progress) -> str | None:
        return "enough" if progress.share > 0.6 and progress.score is not None else None

    stopped = replace(QUIET, folder=tmp_path / "stopped", watch=watch)
    with pytest.raises(StoppedError):
        fit_all(splits, CONFIG, stopped)
    [model] = fit_all(splits, CONFIG, replace(stopped, watch=None, resume=True))
    assert model.file() == whole.file()
    assert model.metrics == whole.metrics
    learned = whole.facts.search["mixture"]["learned_beta"]
    assert model.facts.search["mixture"]["learned_beta"] == learned != START


def test_the_mixture_is_above_its_parts_or_not_shipped(splits: Splits):
    [model] = fit_all(splits, CONFIG, QUIET)
    [apart] = fit_all(splits, replace(CONFIG, mix=True), QUIET)
    mixture = model.facts.search["mixture"]
    figures = mixture["valid_ndcg@10"]
    assert mixture["is_shipped"] == (
        figures["mixture"] >= max(figures["vectors"], figures["filter"])
    )
    assert (model.filter is not None) == mixture["is_shipped"]
    # The vectors learned something else than those that were trained alone.
    assert figures["vectors"] != apart.facts.search["mixture"]["valid_ndcg@10"]["vectors"]
    assert figures["filter"] == apart.facts.search["mixture"]["valid_ndcg@10"]["filter"]
    assert "learned_beta" not in apart.facts.search["mixture"]
    judged = evaluate(Runtime(decode(model.file())), splits, on="test").mean["ndcg@10"]
    assert judged == pytest.approx(model.metrics["test"]["ndcg@10"], rel=1e-6)


def test_a_refit_is_trained_beside_the_filter_of_its_own_data(splits: Splits):
    [model] = fit_all(splits, replace(CONFIG, refit="train+valid"), QUIET)
    assert math.isfinite(model.facts.search["mixture"]["learned_beta"])
    assert model.metrics["test"]["ndcg@10"] > 0


def test_what_is_not_trained_cannot_be_trained_together(splits: Splits):
    with pytest.raises(ConfigError, match="without training"):
        fit_all(splits, replace(CONFIG, method="als", backbone="mf"), QUIET)


def test_another_word_is_refused():
    with pytest.raises(ConfigError, match="mix is 'apart'; it must be True or False or together"):
        replace(CONFIG, mix="apart")
