"""Vectors that leave the model rank as it does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cerp.errors import ConfigError
from cerp.runtime import Runtime
from cerp.runtime.vector_tables import write_vectors
from small_filters import small_filter, small_mixture
from small_models import coded_model, small_model


@pytest.mark.parametrize("backbone", ["mf", "lightgcn"])
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_inner_products_of_the_vectors_are_the_scores(backbone: str, suffix: str, tmp_path: Path):
    runtime = Runtime(coded_model(backbone))
    path = tmp_path / f"vectors{suffix}"
    assert write_vectors(runtime, path) == 65
    if suffix == ".npy":
        table = np.load(path, allow_pickle=False)
        ids = json.loads((tmp_path / "vectors.ids.json").read_text())
        assert ids == {"users": list(range(100, 125)), "items": runtime.items.values.tolist()}
    else:
        found = pq.read_table(path)
        assert found["kind"].to_pylist() == ["user"] * 25 + ["item"] * 40
        assert found["id"].to_pylist()[:2] == ["100", "101"]
        table = np.array(found["vector"].to_pylist(), dtype=np.float32)
    users = np.arange(25, dtype=np.int32)
    assert table[:25] @ table[25:].T == pytest.approx(runtime.score_all(users), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("model", [small_filter(), small_mixture("mf"), small_model("mlp")])
def test_scores_that_are_no_inner_products_are_a_clear_no(model, tmp_path: Path):
    with pytest.raises(ConfigError, match="are no inner products of two vectors"):
        write_vectors(Runtime(model), tmp_path / "vectors.npy")
    with pytest.raises(ConfigError, match=r"written as \.npy or \.parquet"):
        write_vectors(Runtime(model), tmp_path / "vectors.txt")
