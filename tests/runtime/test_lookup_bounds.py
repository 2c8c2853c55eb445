"""Files for lookups that ask for too much: refused before anything is composed, or named."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from cerp.artifact import ComposedEmbedding, Encoding, Index, ShippedModel, Table, decode, encode
from cerp.data.ids import Ids
from cerp.errors import ConfigError, ScoreError
from cerp.runtime.lookup import Lookup
from golden_lookup import golden_lookup

HUGE = np.float32(3e38)


def shared_row(ids: int, row: np.ndarray, tables: int = 1) -> ShippedModel:
    """All ids have one and the same row, so that the file stays small whatever it describes."""
    table = Table(Index("modulo", size=1), row[None].astype(np.float32))
    return ShippedModel(
        facts={},
        users=Ids.range(0),
        items=Ids.range(ids),
        head=None,
        embedding=ComposedEmbedding((table,) * tables),
    )


def opened(model: ShippedModel, max_memory: int | str = "4GB") -> Lookup:
    file = encode(model, Encoding())
    return Lookup(decode(file), file_bytes=len(file), max_memory=max_memory)


def test_all_vectors_of_a_small_file_are_refused_where_they_take_too_much():
    lookup = opened(shared_row(2**20 - 1, np.ones(5000)))
    tracemalloc.start()
    with pytest.raises(ConfigError, match="1,048,575 vectors take 20,971,500,000 bytes"):
        lookup.vectors()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert lookup.vectors([7, 8]).shape == (2, 5000)


def test_the_nearest_are_refused_where_finding_them_takes_too_many_steps():
    lookup = opened(shared_row(2**20 - 1, np.ones(8), tables=300))
    with pytest.raises(ConfigError, match="comparing 1,048,575 vectors takes about"):
        lookup.nearest(0)


def test_the_nearest_of_wide_vectors_take_the_memory_of_few():
    lookup = opened(shared_row(4000, np.ones(4000)))
    tracemalloc.start()
    assert lookup.nearest(3, k=2)[0].id == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6  # all of them: 64 MB, and once more as unit vectors


def test_huge_vectors_have_the_similarities_of_small_ones():
    lookup = golden_lookup()
    assert lookup.projection is not None
    large = opened(replace(lookup, projection=replace(lookup.projection, scale=1e30)))
    small = opened(replace(lookup, projection=replace(lookup.projection, scale=1e6)))
    found, expected = large.nearest("one"), small.nearest("one")
    assert [one.id for one in found] == [one.id for one in expected]
    assert [one.similarity for one in found] == pytest.approx(
        [one.similarity for one in expected], abs=1e-3
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_projected", [False, True])
def test_vectors_that_overflow_are_named(is_projected: bool):
    model = shared_row(3, np.full(2, HUGE), tables=1 if is_projected else 2)
    if is_projected:
        model = replace(model, projection=golden_lookup().projection)
    with pytest.raises(ScoreError, match="values of the file are too large"):
        opened(model).vectors()
