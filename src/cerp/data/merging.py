"""Parts over the same ids put together, some users at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.sorting import STRETCH


def merge(first: Interactions, second: Interactions) -> Interactions:
    """The union of two parts over the same ids, which share no pair."""
    if first.weight is not None and second.weight is not None:
        union = Interactions.from_codes(
            np.concatenate([first.user, second.user]),
            np.concatenate([first.item, second.item]),
            users=first.users,
            items=first.items,
            weight=np.concatenate([first.weight, second.weight]),
        )
        return replace(union, titles=first.titles)
    user, item = (np.empty(len(first) + len(second), dtype=np.int32) for _ in range(2))
    filled = 0
    for some_users, some_items in merged_pairs(first, second):
        rows = slice(filled, filled + len(some_users))
        user[rows], item[rows] = some_users, some_items
        filled = rows.stop
    union = Interactions.from_sorted(user, item, users=first.users, items=first.items)
    return replace(union, titles=first.titles)


def merged_keys(*parts: Interactions) -> Iterator[Int64Array]:
    """`Interactions.keys` of parts over the same ids together, ascending, some users at a time."""
    longest = max(parts, key=len)
    starts = np.unique(longest.user[::STRETCH])[1:]
    cuts = [[0, *np.searchsorted(part.user, starts).tolist(), len(part)] for part in parts]
    for ends in itertools.pairwise(zip(*cuts, strict=True)):
        rows = [slice(*both) for both in zip(*ends, strict=True)]
        keys = np.concatenate([part.keys(some) for part, some in zip(parts, rows, strict=True)])
        keys.sort(kind="stable")  # which merges what is in order already
        yield keys


def merged_pairs(*parts: Interactions) -> Iterator[tuple[Int32Array, Int32Array]]:
    """Users and items of `merged_keys`."""
    width = max(parts[0].num_items, 1)
    for keys in merged_keys(*parts):
        user = keys // width
        yield user.astype(np.int32), (keys - user * width).astype(np.int32)


def shared_keys(*parts: Interactions) -> Int64Array:
    """`Interactions.keys` that more than one of the parts has."""
    return np.concatenate([keys[1:][keys[1:] == keys[:-1]] for keys in merged_keys(*parts)])
