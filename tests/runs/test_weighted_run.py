"""Runs on interactions with weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cerp
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from small_graphs import splits_of

QUICK = {"backbone": "mf", "method": "ud", "dim": 4, "epochs": 1, "budget": "50%"}


def weighted(splits: Splits, seed: int) -> Splits:
    rng = np.random.default_rng(seed)
    parts = {
        name: replace(part, weight=rng.integers(1, 9, len(part)).astype(np.float32))
        for name, part in (("train", splits.train), ("valid", splits.valid), ("test", splits.test))
    }
    return Splits(**parts, protocol=splits.protocol)


def test_weights_change_what_is_learned_and_other_weights_are_another_run(tmp_path):
    plain = splits_of(0)
    first = weighted(plain, 1)
    model = cerp.fit(first, **QUICK, output=tmp_path / "run", verbose=False)
    without = cerp.fit(plain, **QUICK, verbose=False)
    assert not np.array_equal(
        model.recommender.embedding.weight.detach(), without.recommender.embedding.weight.detach()
    )
    again = cerp.fit(first, **QUICK, output=tmp_path / "run", resume=True, verbose=False)
    assert again.metrics == model.metrics
    with pytest.raises(ConfigError, match="the same interactions, with other weights"):
        cerp.fit(weighted(plain, 2), **QUICK, output=tmp_path / "run", resume=True, verbose=False)


def test_a_method_without_vectors_says_that_it_does_not_look_at_weights(capsys):
    splits = splits_of(0)
    model = cerp.fit(weighted(splits, 1), method="filter", device="cpu")
    assert "'filter' learns from which pairs there are and does not" in capsys.readouterr().err
    assert model.metrics == cerp.fit(splits, method="filter", verbose=False).metrics
