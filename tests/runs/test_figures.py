"""The figures of a run are those of its file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cerp.artifact import decode, usage
from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.runs.fit import fit_all

CONFIG = Config(dim=8, budgets=("80%",), prune=PruneConfig(epochs=1), train=TrainConfig(epochs=1))
SIZED: dict[str, Any] = {"budgets": ("8KB",), "max_file_size": "8KB"}
CODED: dict[str, Any] = {"assignment": "learned"}


@pytest.fixture(scope="module")
def splits() -> Splits:
    return synthetic(300, 200, 6000).split(seed=0)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        CODED,
        {**SIZED, **CODED},
        {**SIZED, **CODED, "backbone": "mf"},  # two books, where a typical limit has one
        {**SIZED, "value_precision": "int4"},
        {**SIZED, **CODED, "mix": True},
        {"method": "ud", "value_precision": "int8"},
    ],
)
def test_counts_of_a_run_are_those_of_its_file(splits: Splits, settings: dict[str, Any]):
    [model] = fit_all(splits, replace(CONFIG, **settings), RunOptions(quiet=True))
    facts, data = model.facts, model.file()
    file = decode(data)
    found = usage(file)
    assert (facts.file_bytes, facts.values) == (len(data), file.precision)
    assert (facts.nnz, facts.overlap) == (found.stored_values, found.overlap)
    assert facts.avg_dim == pytest.approx(found.average_dimension)
