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
from cerp.runtime.limits import Limits, memory_of


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


def many_tables(folder: Path, items: int, tables: int) -> Path:
    """A file of many tables with one row of one value each."""
    one = Table(Index("modulo", size=1), np.ones((1, 1), dtype=np.float32))
    model = ShippedModel(
        facts={},
        users=Ids.range(1),
        items=Ids.range(items),
        head="dot",
        embedding=ComposedEmbedding((one,) * tables),
    )
    path = folder / "tables.cerp"
    artifact.write(path, model, Encoding())
    return path


def test_a_file_of_endless_tables_is_refused_before_they_are_added_up(tmp_path: Path):
    path = many_tables(tmp_path, items=2**20 - 1, tables=2000)
    with pytest.raises(ConfigError, match="loading this model takes about 4,194,300,000 steps"):
        cerp.load(path)


def test_many_tables_are_added_up_one_after_the_other(tmp_path: Path):
    path = many_tables(tmp_path, items=20_000, tables=200)
    tracemalloc.start()
    runtime = cerp.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20  # all parts at once would be 16 MB
    assert runtime.score(0, [0, 19_999]).tolist() == [200 * 200] * 2


def test_folding_in_wide_vectors_is_refused(tmp_path: Path):
    runtime = cerp.load(written(tmp_path, items=10, dim=8000))
    assert len(runtime.recommend(0, 3, exclude_seen=False)) == 3
    with pytest.raises(ConfigError, match="recommending for someone new takes about"):
        runtime.recommend_for([1])


def test_a_large_file_may_ask_for_more_steps_than_a_small_one():
    assert Limits.of("4MB", 1000) == Limits(4_000_000, 4_096_000)
    assert Limits.of("4MB", 10**6) == Limits(4_000_000, 4_096_000_000)
    assert Limits.of("4MB", None) == Limits(4_000_000, 1_000_000)
