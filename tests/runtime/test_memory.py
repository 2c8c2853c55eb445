"""A small file cannot make a machine compose vectors without end."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import cerp
from cerp import artifact
from cerp.artifact import ComposedEmbedding, Encoding, Index, ShippedModel, Table
from cerp.data.ids import Ids
from cerp.errors import ConfigError
from cerp.runtime.vectors import memory_of


def written(folder: Path, items: int, dim: int) -> Path:
    """All entities share one row, so that the file stays small whatever it describes."""
    table = Table(Index("modulo", size=1), np.ones((1, dim), dtype=np.float32))
    model = ShippedModel(
        facts={},
        users=Ids.range(1),
        items=Ids.range(items),
        head="dot",
        embedding=ComposedEmbedding((table,)),
    )
    path = folder / "model.cerp"
    artifact.write(path, model, Encoding())
    return path


def test_a_small_file_of_endless_vectors_is_refused_before_they_are_composed(tmp_path: Path):
    path = written(tmp_path, items=2**20 - 1, dim=500)
    assert path.stat().st_size < 3000
    tracemalloc.start()
    with pytest.raises(ConfigError, match="takes about 6,291,450,000 bytes, more than"):
        cerp.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def test_what_is_allowed_can_be_said_in_bytes_or_as_a_size(tmp_path: Path):
    path = written(tmp_path, items=1000, dim=8)
    needed = memory_of(artifact.read(path))
    assert needed == 1000 * 8 * 12
    assert len(cerp.load(path, max_memory=needed).recommend(0, 3, exclude_seen=False)) == 3
    assert len(cerp.load(path, max_memory="1MB").recommend(0, 3, exclude_seen=False)) == 3
    for most in (needed - 1, "95KB"):
        with pytest.raises(ConfigError, match="give more if the file is one that you trust"):
            cerp.load(path, max_memory=most)
