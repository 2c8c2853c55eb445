from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from cerp.errors import ConfigError, DataError
from cerp.nn import CompositionalEmbedding, learn_codes, table_codes, table_positions

PADDING = 0
GROUPS = np.array([0, *(np.arange(40) % 2)])
"""Of 41 ids: the padding, then members of two groups in turns."""
RNG = np.random.default_rng(0)
SESSIONS = [
    [*RNG.choice(np.flatnonzero(group == GROUPS)[1 - group :], 6, replace=False).tolist(), PADDING]
    for group in RNG.integers(0, 2, 150)
]
PAIRS = [(number, item) for number, session in enumerate(SESSIONS) for item in session]
TOGETHER = np.zeros((41, 41))
for _session in SESSIONS:
    for _one in _session[:-1]:
        for _other in _session[:-1]:
            TOGETHER[_one, _other] += _one != _other
TABLE = np.where(GROUPS[:, None] == 0, 1.0, -1.0) * np.ones(5) + 0.1 * RNG.normal(size=(41, 5))
SOURCES = {
    "pairs": PAIRS,
    "sequences": SESSIONS,
    "cooccurrence": csr_array(TOGETHER),
    "table": TABLE,
}


@pytest.mark.parametrize("source", SOURCES)
def test_alike_ids_share_codes_whatever_says_so(source: str):
    found = table_codes(41, **{source: SOURCES[source]}, books=1, rows=2, padding_idx=PADDING)
    assert found.codes.shape == (41, 1)
    assert (found.codes[1:, 0] == found.codes[1, 0]).tolist() == (GROUPS[1:] == 0).tolist()
    CompositionalEmbedding(41, 8, PADDING, codes=found.codes, buckets=2)


@pytest.mark.parametrize("source", SOURCES)
def test_alike_ids_stand_together_and_the_padding_last(source: str):
    positions = table_positions(41, **{source: SOURCES[source]}, padding_idx=PADDING)
    assert np.sort(positions).tolist() == list(range(41))
    assert positions[PADDING] == 40
    line = GROUPS[np.argsort(positions)[:40]]
    assert np.count_nonzero(np.diff(line)) <= 4  # by number, groups would change 39 times
    embedding = CompositionalEmbedding(41, 8, PADDING, buckets=8, positions=positions)
    assert not embedding(torch.tensor([PADDING])).any()


def test_a_table_without_padding_has_the_codes_of_its_vectors():
    mine = table_codes(41, table=TABLE, books=2, rows=4, seed=3)
    assert np.array_equal(mine.codes, learn_codes(TABLE, books=2, rows=4, seed=3).codes)


def test_sequences_are_pairs_of_their_number_and_an_id():
    by_pairs = table_positions(41, pairs=np.array(PAIRS))
    assert np.array_equal(table_positions(41, sequences=SESSIONS), by_pairs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "got 0 of them"),
        ({"pairs": PAIRS, "table": TABLE}, "got 2 of them"),
    ],
)
def test_one_source_is_given(given: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        table_codes(41, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pairs": [(0, 41)]}, "ids 0..40"),
        ({"pairs": np.zeros((0, 2), dtype=int)}, "got none"),
        ({"pairs": [(0.5, 1.0)]}, "whole numbers"),
        ({"pairs": [(1, 2, 3)]}, r"\(1, 3\)"),
        ({"sequences": [[0.5]]}, "whole numbers"),
        ({"sequences": []}, "got none"),
        ({"cooccurrence": np.ones((3, 3))}, r"\(41, 41\)"),
        ({"cooccurrence": -np.ones((41, 41))}, "not below zero"),
        ({"table": TABLE[:5]}, r"\(41, dimensions\)"),
        ({"table": TABLE * np.nan}, "not finite"),
    ],
)
@pytest.mark.parametrize("make", [table_codes, table_positions])
def test_what_cannot_be_used_is_refused(make, given: dict[str, object], message: str):
    with pytest.raises(DataError, match=message):
        make(41, **given)


def test_a_padding_outside_the_table_is_refused():
    with pytest.raises(ConfigError, match="padding_idx 41"):
        table_positions(41, table=TABLE, padding_idx=41)
