"""Training interactions as gaps between the ranks of neighbours.

Users and items are renumbered by their rank among their own kind's positions.
Under a spectral order the items of a user lie close together, so the gaps
between them are small; Gowalla's take 1.15 bytes an interaction, row counts
included (see docs/format.md for what else was tried).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.artifact.model import Seen
from cerp.artifact.numbers import decode_numbers, encode_numbers
from cerp.artifact.once import coded_once
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Int32Array, Int64Array
from cerp.data.sorting import LONG_STRETCH
from cerp.errors import MalformedFileError
from cerp.naming import prefixed


def encode_seen(seen: Seen, num_items: int, positions: Int32Array | None) -> Tensors:
    """The number lists ``counts`` and ``gaps``; positions of all entities, None: codes."""
    return dict(_encoded(seen.offsets, seen.items, num_items, positions))


@coded_once
def _encoded(
    offsets: Int64Array, items: Int32Array, num_items: int, positions: Int32Array | None
) -> Tensors:
    """`encode_seen` of arrays."""
    counts = np.diff(offsets)
    user_line, item_line = _lines(len(counts), num_items, positions)
    item_rank = _inverse(item_line)
    keys = _keys(_inverse(user_line), counts, item_rank, items)
    ranked_counts = counts[user_line]
    del counts, user_line, item_line, item_rank
    keys.sort()
    gaps = np.remainder(keys, max(num_items, 1), out=keys)  # not yet: they are items
    first = _first_of_rows(ranked_counts)
    first_items = gaps[first]
    for start in reversed(range(1, len(gaps), LONG_STRETCH)):
        end = min(start + LONG_STRETCH, len(gaps))
        gaps[start:end] -= gaps[start - 1 : end - 1] + 1
    gaps[first] = first_items
    del first, first_items
    return prefixed("counts", encode_numbers(ranked_counts)) | prefixed(
        "gaps", encode_numbers(gaps)
    )


def decode_seen(
    tensors: TensorReader,
    num_users: int,
    num_items: int,
    num_edges: int,
    positions: Int32Array | None,
) -> Seen:
    """What `encode_seen` wrote."""
    counts = decode_numbers(tensors.under("counts"), num_users)
    if (counts > num_items).any() or counts.sum() != num_edges:
        raise MalformedFileError(f"{tensors.name('counts')} do not add up to the interactions")
    gaps = decode_numbers(tensors.under("gaps"), num_edges)
    if (gaps >= max(num_items, 1)).any():
        raise MalformedFileError(f"{tensors.name('gaps')} lead beyond the last item")
    items = _sums_within_rows(gaps, counts)
    if (items >= num_items).any():
        raise MalformedFileError(f"{tensors.name('gaps')} lead beyond the last item")
    user_line, item_line = _lines(num_users, num_items, positions)
    keys = _keys(user_line, counts, item_line, items)
    del gaps, items
    if num_users * num_items <= 2**32:  # sorted in half the time
        keys = keys.astype(np.uint32)
    keys.sort()
    offsets = np.zeros(num_users + 1, dtype=np.int64)
    np.cumsum(counts[_inverse(user_line)], out=offsets[1:])
    return Seen(offsets, np.remainder(keys, max(num_items, 1), out=keys).astype(np.int32))


def _lines(
    num_users: int, num_items: int, positions: Int32Array | None
) -> tuple[Int64Array, Int64Array]:
    """Codes of users and of items in the order of their positions."""
    if positions is None:
        return np.arange(num_users), np.arange(num_items)
    return np.argsort(positions[:num_users]), np.argsort(positions[num_users:])


def _keys(
    users: Int64Array, counts: Int64Array, items: Int64Array, chosen: npt.NDArray[np.integer[Any]]
) -> Int64Array:
    """One integer a pair: each user ``counts`` times, with the ``chosen`` of the items."""
    keys = np.repeat(users, counts)
    keys *= len(items)
    for start in range(0, len(keys), LONG_STRETCH):
        stretch = slice(start, start + LONG_STRETCH)
        keys[stretch] += items[chosen[stretch]]
    return keys


def _inverse(line: Int64Array) -> Int64Array:
    rank = np.empty_like(line)
    rank[line] = np.arange(len(line))
    return rank


def _first_of_rows(counts: Int64Array) -> Int64Array:
    """Where in the list of all rows each row that is not empty begins."""
    return (np.cumsum(counts) - counts)[counts > 0]


def _sums_within_rows(gaps: Int64Array, counts: Int64Array) -> Int64Array:
    """``x_0 = g_0``, ``x_j = x_(j-1) + g_j + 1`` in every row. The gaps are used up."""
    first = _first_of_rows(counts)
    first_items = gaps[first]
    gaps += 1
    sums = np.cumsum(gaps, out=gaps)
    sums -= np.repeat(sums[first] - first_items, counts[counts > 0])
    return sums
