"""The training graph: who took what, from both sides."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions


class Edges:
    """Users and items joined by the interactions of training.

    Parameters
    ----------
    user_offsets
        The items of user u are ``items[user_offsets[u] : user_offsets[u + 1]]``.
    items
        Item codes, ascending within each user.
    num_items
        How many items there are, those that nobody took included.

    """

    def __init__(self, user_offsets: Int64Array, items: Int32Array, num_items: int) -> None:
        self.user_offsets, self.items, self.num_items = user_offsets, items, num_items
        self.num_users = len(user_offsets) - 1
        self.user_degrees: Int64Array = np.diff(user_offsets)
        self.item_degrees: Int64Array = np.bincount(items, minlength=num_items)

    @classmethod
    def of(cls, train: Interactions) -> Edges:
        """The graph of some interactions."""
        return cls(train.user_offsets, train.item, train.num_items)

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def item_offsets(self) -> Int64Array:
        """The users of item i are ``users[item_offsets[i] : item_offsets[i + 1]]``."""
        return np.concatenate([[0], np.cumsum(self.item_degrees)])

    @cached_property
    def users(self) -> Int32Array:
        """User codes, ascending within each item."""
        user = np.repeat(np.arange(self.num_users, dtype=np.int32), self.user_degrees)
        return user[np.argsort(self.items, kind="stable")]

    def history(self, user: int) -> Int32Array:
        """What a user took."""
        return self.items[self.user_offsets[user] : self.user_offsets[user + 1]]


def places(starts: Int64Array, counts: Int64Array) -> Int64Array:
    """``starts[n], starts[n] + 1, ..., starts[n] + counts[n] − 1`` for every n in turn."""
    first = np.cumsum(counts) - counts
    return np.repeat(starts - first, counts) + np.arange(int(counts.sum()))
