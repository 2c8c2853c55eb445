"""Protocols: which interactions select, which judge, and which may be learned from.

- ``random``: of each user's items, 20% are test, and 10% of the rest validation
  (the paper's protocol).
- ``leave-last-out``: each user's last item is test, the one before validation.
- ``time``: the latest 20% of all interactions are test, the latest 10% of the
  rest validation; equal times stay together on the later side.

With the first two every user keeps at least one training item.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.sorting import counts_of, user_stretches
from cerp.errors import ConfigError, DataError

Protocol = Literal["random", "leave-last-out", "time"]
BoolArray = npt.NDArray[np.bool_]

TEST_SHARE = 0.2
VALID_SHARE = 0.1
"""Of what is left for training after the test part is taken."""


class Cut(NamedTuple):
    """Which interactions are validation and which are test; the others are training."""

    valid: BoolArray
    test: BoolArray
    facts: dict[str, Any]
    """Name, seed and shares: what goes into every result."""


def cut(data: Interactions, protocol: str, seed: int) -> Cut:
    """Apply a protocol by name."""
    if protocol not in get_args(Protocol):
        raise ConfigError(
            f"unknown split protocol {protocol!r}; choose one of {', '.join(get_args(Protocol))}"
        )
    if protocol == "random":
        return _random(data, seed)
    if data.time is None:
        raise ConfigError(f"the protocol {protocol!r} needs times, and this data has none")
    return _leave_last_out(data, data.time) if protocol == "leave-last-out" else _by_time(data.time)


def drawn_per_user(data: Interactions, share: float, rng: np.random.Generator) -> BoolArray:
    """A random share of each user's interactions, rounded; below a half that is never all."""
    return _drawn(data.user, data.user_offsets, share, rng)


def _drawn(
    user: Int32Array, offsets: Int64Array, share: float, rng: np.random.Generator
) -> BoolArray:
    """The same of sorted rows, of which user u has those from ``offsets[u]`` on."""
    drawn = np.empty(len(user), dtype=bool)
    for first, last in user_stretches(offsets):
        begins = offsets[first : last + 1]
        rows = slice(begins[0], begins[-1])
        wanted = np.floor(share * np.diff(begins) + 0.5).astype(np.int64)
        own = user[rows]
        shuffled = np.lexsort((rng.random(len(own)), own))
        places = own - first
        rank = np.arange(begins[0], begins[-1]) - begins[places]
        drawn[rows][shuffled] = rank < wanted[places]
    return drawn


def _random(data: Interactions, seed: int) -> Cut:
    rng = np.random.default_rng(seed)
    test = drawn_per_user(data, TEST_SHARE, rng)
    valid = np.zeros_like(test)
    left = data.user[~test]
    offsets = np.concatenate(([0], np.cumsum(counts_of(left, data.num_users))))
    valid[~test] = _drawn(left, offsets, VALID_SHARE, rng)
    shares = {"test_share": TEST_SHARE, "valid_share": VALID_SHARE}
    return Cut(valid, test, {"name": "random", "seed": seed, **shares})


def _leave_last_out(data: Interactions, time: Int64Array) -> Cut:
    counts = np.diff(data.user_offsets)[data.user]
    by_time = np.lexsort((data.item, time, data.user))
    from_last = np.empty(len(data), dtype=np.int64)
    from_last[by_time] = counts - 1 - _rank_in_user(data)
    test = (from_last == 0) & (counts >= 2)
    valid = (from_last == 1) & (counts >= 3)
    return Cut(valid, test, {"name": "leave-last-out"})


def _by_time(time: Int64Array) -> Cut:
    ordered = np.sort(time)
    test_from = ordered[int(len(ordered) * (1 - TEST_SHARE))]
    before = ordered[ordered < test_from]
    if not before.size:
        raise DataError("a time split needs different times; too many interactions share one")
    valid_from = before[int(len(before) * (1 - VALID_SHARE))]
    test = time >= test_from
    facts = {
        "name": "time",
        "test_share": TEST_SHARE,
        "valid_share": VALID_SHARE,
        "valid_from": int(valid_from),
        "test_from": int(test_from),
    }
    return Cut(~test & (time >= valid_from), test, facts)


def _rank_in_user(data: Interactions) -> Int64Array:
    """0, 1, 2, ... within each user, for rows sorted by user."""
    return np.arange(len(data)) - data.user_offsets[data.user]
