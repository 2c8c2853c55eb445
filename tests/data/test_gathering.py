"""Gathering in stretches of any size, in blocks of any size, is sorting and merging all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.data import gathering
from cerp.data.gathering import Gathering, Merged

USERS, ITEMS = 9, 6
ROWS = st.lists(
    st.tuples(
        st.integers(0, USERS - 1),
        st.integers(0, ITEMS - 1),
        st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
        st.sampled_from([0.5, 1.0, 4.0]),  # whose sums are exact in any order
    )
)


def gathered(
    rows: list[tuple[int, int, int, float]],
    step: int,
    *,
    timed: bool,
    weighted: bool,
    ahead: bool = False,
) -> Merged:
    user, item = (np.array([row[k] for row in rows], dtype=np.int32) for k in (0, 1))
    time = np.array([row[2] for row in rows], dtype=np.int64)
    weight = np.array([row[3] for row in rows])
    ends = (int(time.min()), int(time.max())) if rows else (0, 0)
    found = Gathering(
        USERS,
        ITEMS,
        len(rows),
        lambda: np.bincount(user, minlength=USERS),
        times=ends if timed else None,
        weighted=weighted,
    )
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        found.add(
            user[part],
            item[part],
            time[part] if timed else None,
            weight[part] if weighted else None,
        )
    if ahead:
        found.sort()
    return found.merged()


@given(
    rows=ROWS,
    step=st.integers(1, 5),
    # All in one block; several users in each; each user in one.
    bits=st.sampled_from([63, 10, 0]),
    stretch=st.integers(1, 4),
    timed=st.booleans(),
    weighted=st.booleans(),
    ahead=st.booleans(),
)
def test_stretches_and_blocks_give_what_a_dictionary_does(
    rows: list[tuple[int, int, int, float]],
    step: int,
    bits: int,
    stretch: int,
    timed: bool,
    weighted: bool,
    ahead: bool,
):
    times: dict[tuple[int, int], int] = {}
    weights: dict[tuple[int, int], float] = {}
    for user, item, time, weight in rows:
        times[user, item] = min(time, times.get((user, item), time))
        weights[user, item] = weight + weights.get((user, item), 0)
    pairs = sorted(times)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "STRETCH", stretch)
        # Few bits make small blocks; one user is a block whatever is allowed.
        patch.setattr(gathering, "BITS", max(bits, len(rows).bit_length()))
        found = gathered(rows, step, timed=timed, weighted=weighted, ahead=ahead)
    assert list(zip(found.user.tolist(), found.item.tolist(), strict=True)) == pairs
    assert found.duplicates == len(rows) - len(pairs)
    if found.time is not None:
        assert found.time.tolist() == [times[pair] for pair in pairs]
    if found.weight is not None:
        assert found.weight.tolist() == [weights[pair] for pair in pairs]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bits", [63, 14, 9])
def test_times_go_along_in_blocks(bits: int, weighted: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gathering, "BITS", bits)
    rng = np.random.default_rng(0)
    rows = [
        (int(user), int(item), int(time), 1.0)
        for user, item, time in zip(
            rng.integers(0, USERS, 60), rng.integers(0, ITEMS, 60), range(-30, 30), strict=True
        )
    ]
    earliest = {(user, item): time for user, item, time, _ in reversed(rows)}
    found = gathered(rows, 7, timed=True, weighted=weighted)
    assert found.time is not None
    told = zip(found.user.tolist(), found.item.tolist(), found.time.tolist(), strict=True)
    assert list(told) == [(*pair, earliest[pair]) for pair in sorted(earliest)]


@pytest.mark.parametrize(
    ("bits", "blocks"),
    [
        (9, 9),  # 6 bits of time and 3 of an item: one user in each block
        (12, 1),  # 54 pairs take 6 bits: all fit beside the time
        (10, 5),  # 15 pairs are 2 users, and there are 9
    ],
)
def test_as_many_users_are_a_block_as_fit(bits: int, blocks: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gathering, "BITS", bits)
    asked = []

    def rows_of_user() -> np.ndarray:
        asked.append(True)
        return np.full(USERS, 10)

    found = Gathering(USERS, ITEMS, 90, rows_of_user, times=(0, 63))
    assert len(found._filled) == blocks
    assert bool(asked) == (blocks > 1)
