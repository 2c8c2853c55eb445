"""Lists for many users at a time: in blocks, on all cores, in bounded memory.

A block of users is ranked while others are, and the lists come out in the order of the users;
no more blocks are in flight than there are workers, and a few. What is in a list is what
`Runtime.recommend` gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from cerp.artifact.model import FloatArray
from cerp.cores import available_cores
from cerp.data.ids import Int32Array, Int64Array
from cerp.errors import ConfigError
from cerp.runtime.coded_lists import NOWHERE, Places
from cerp.runtime.recommending import SCORE_BYTES, Runtime
from cerp.runtime.selection import Lists

AHEAD = 2
"""Blocks that may be ready, or in the making, for every worker."""
DEEPER = 4
"""Under a cap, so many times the length of a list is ranked first, and then again as much."""

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class Cap:
    """At most ``most`` items of a list share a category."""

    categories: Int32Array
    """Of every item, by code; -1: of none, and never capped."""
    most: int

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ConfigError(f"a list has at least 1 item of a category, not {self.most}")


@dataclass(frozen=True, eq=False)
class Request:
    """What every list is to be, by code."""

    k: int = 10
    exclude_seen: bool = True
    excluded: Int32Array | None = None
    candidates: Int32Array | None = None
    cap: Cap | None = None
    unseen_items: bool = False


class Rows(NamedTuple):
    """Places of several lists, one list after the other."""

    users: Int64Array
    """The position of the user of each place."""
    items: Int32Array
    """Codes."""
    ranks: Int64Array
    """From 1."""
    scores: FloatArray


def lists_in_blocks(
    runtime: Runtime,
    users: Int32Array,
    request: Request,
    histories: Mapping[int, Int32Array] | None = None,
    *,
    workers: int | None = None,
) -> Iterator[Rows]:
    """Lists of users of training by code, a block at a time; positions count the users given.

    ``histories`` has more items that users took, by user code: their lists do without them.
    """
    size = max(1, SCORE_BYTES // (4 * max(1, len(runtime.items))))
    starts = range(0, len(users), size)

    def ranked(start: int) -> Rows:
        block = users[start : start + size]
        taken = _places(block, histories)

        def lists(k: int) -> Lists:
            return runtime.lists_of(
                block,
                k,
                exclude_seen=request.exclude_seen,
                excluded=request.excluded,
                candidates=request.candidates,
                taken=taken,
                unseen_items=request.unseen_items,
            )

        rows = _rows(lists, request, len(block), len(runtime.items))
        return rows._replace(users=rows.users + start)

    return in_order(ranked, starts, workers or available_cores())


def lists_of_histories(
    runtime: Runtime,
    histories: Iterable[Int32Array],
    request: Request,
    *,
    workers: int | None = None,
) -> Iterator[Rows]:
    """Lists of people who were not there in training, from the items that they took."""

    def ranked(given: tuple[int, Int32Array]) -> Rows:
        position, liked = given

        def lists(k: int) -> Lists:
            return runtime.lists_for(
                liked,
                k,
                exclude_seen=request.exclude_seen,
                excluded=request.excluded,
                candidates=request.candidates,
                unseen_items=request.unseen_items,
            )

        rows = _rows(lists, request, 1, len(runtime.items))
        return rows._replace(users=rows.users + position)

    return in_order(ranked, enumerate(histories), workers or available_cores())


def in_order(
    make: Callable[[_Given], _Made], given: Iterable[_Given], workers: int
) -> Iterator[_Made]:
    """What ``make`` gives for each, in order, made by several threads a little ahead."""
    with ThreadPoolExecutor(workers) as pool:
        pending: deque[Future[_Made]] = deque()
        try:
            for one in given:
                pending.append(pool.submit(make, one))
                if len(pending) >= AHEAD * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _places(users: Int32Array, histories: Mapping[int, Int32Array] | None) -> Places | None:
    if not histories:
        return None
    found = [histories.get(user) for user in users.tolist()]
    there = [(row, items) for row, items in enumerate(found) if items is not None]
    if not there:
        return NOWHERE
    rows = np.repeat([row for row, _ in there], [len(items) for _, items in there])
    return rows, np.concatenate([items for _, items in there])


def _rows(lists: Callable[[int], Lists], request: Request, count: int, num_items: int) -> Rows:
    """All places of the lists; under a cap, ranked as deep as the lists need."""
    if request.cap is None:
        return _flat(lists(request.k))
    depth = min(DEEPER * request.k, num_items)
    while True:
        found = _flat(lists(depth))
        kept = _within_cap(found, request.cap, request.k)
        ranked = np.bincount(found.users, minlength=count)
        is_short = np.bincount(kept.users, minlength=count) < request.k
        if depth >= num_items or not (is_short & (ranked == depth)).any():
            return kept
        depth = min(DEEPER * depth, num_items)


def _flat(lists: Lists) -> Rows:
    starts, ends = np.array(lists.starts, dtype=np.int64), np.array(lists.ends, dtype=np.int64)
    lengths = ends - starts
    users = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    ranks = np.arange(len(users)) - before[users]
    places = starts[users] + ranks
    items = lists.columns[places].astype(np.int32, copy=False)
    return Rows(users, items, ranks + 1, lists.scores[places])


def _within_cap(rows: Rows, cap: Cap, k: int) -> Rows:
    """The best k of each list of which at most so many share a category."""
    category = cap.categories[rows.items].astype(np.int64)
    key = rows.users * (int(cap.categories.max(initial=0)) + 2) + category + 1
    order = np.argsort(key, kind="stable")  # the better of a category stay first
    in_order_of_key = key[order]
    first = np.searchsorted(in_order_of_key, in_order_of_key)
    earlier = np.empty(len(key), dtype=np.int64)
    earlier[order] = np.arange(len(key)) - first
    fits = (earlier < cap.most) | (category < 0)
    users = rows.users[fits]
    ranks = np.arange(len(users)) - np.searchsorted(users, users) + 1
    kept = np.flatnonzero(fits)[ranks <= k]
    return Rows(rows.users[kept], rows.items[kept], ranks[ranks <= k], rows.scores[kept])
