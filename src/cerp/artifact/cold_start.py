"""Who and what training never saw, in a file that does not hold its interactions.

The takers of every item are written where somebody has to be given the popular items; an item
without any is then one that training never saw. Else the codes of such items are enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cerp.artifact.fields import Fields
from cerp.artifact.model import ColdStart, Seen
from cerp.artifact.numbers import decode_numbers, encode_numbers
from cerp.artifact.tensors import TensorReader, Tensors
from cerp.data.ids import Int32Array, Int64Array
from cerp.errors import MalformedFileError
from cerp.naming import prefixed


def needed_cold_start(seen: Seen, num_items: int, *, popularity: bool) -> ColdStart | None:
    """What a file without the interactions has to say in their place; None: nothing.

    ``popularity``: the popular items are wanted also where no user of training needs them.
    """
    found = ColdStart.of(seen, num_items)
    if len(found.users) or popularity:
        return found
    return ColdStart(found.users, found.items, None) if len(found.items) else None


def encode_cold_start(cold: ColdStart) -> tuple[dict[str, Any], Tensors]:
    """Gaps between the codes, and the takers of items where they are known."""
    entry = {
        "degrees": cold.degrees is not None,
        "items": len(cold.items),
        "users": len(cold.users),
    }
    lists = {"cold.users": _gaps(cold.users)}
    if cold.degrees is None:
        lists["cold.items"] = _gaps(cold.items)
    else:
        lists["cold.degrees"] = cold.degrees
    tensors: Tensors = {}
    for name, numbers in lists.items():
        if len(numbers):
            tensors |= prefixed(name, encode_numbers(numbers))
    return entry, tensors


def decode_cold_start(
    fields: Fields, tensors: TensorReader, num_users: int, num_items: int
) -> ColdStart:
    """What `encode_cold_start` wrote."""
    users = _codes(tensors.under("cold.users"), fields.whole("users", largest=num_users), num_users)
    count = fields.whole("items", largest=num_items)
    if not fields.truth("degrees"):
        items = _codes(tensors.under("cold.items"), count, num_items)
        return ColdStart(users, items, None)
    degrees = decode_numbers(tensors.under("cold.degrees"), num_items)
    if (degrees > num_users).any():
        raise MalformedFileError("cold.degrees count more takers of an item than there are users")
    items = np.flatnonzero(degrees == 0).astype(np.int32)
    if len(items) != count:
        raise MalformedFileError(
            f"cold.degrees have {len(items):,} items without takers, and {count:,} are claimed"
        )
    return ColdStart(users, items, degrees)


def _gaps(codes: Int32Array) -> Int64Array:
    gaps: Int64Array = codes - np.concatenate([[0], codes[:-1].astype(np.int64) + 1])
    return gaps


def _codes(tensors: TensorReader, count: int, most: int) -> Int32Array:
    """Ascending codes below ``most`` from the gaps between them."""
    if not count:
        return np.empty(0, dtype=np.int32)
    gaps = decode_numbers(tensors, count)
    if not (gaps >= most).any():
        codes = np.cumsum(gaps + 1) - 1
        if codes[-1] < most:
            return codes.astype(np.int32)
    raise MalformedFileError(f"{tensors.name('gaps')} lead beyond the last code")
