"""Vectors of items that rank from the items of whoever asks: ``score(i) = ⟨Σ_j w_j v_j, v_i⟩``.

They know no users. The sum is over the items j that someone has, ascending, in float64, and an
item counts the less the more often it was taken:

    w_j = n_j^-t,   n_j = ⌈2^(l_j / 8)⌉

with l_j the level of its popularity (`cerp.graph.neighbours.popularity_levels`), so that n_j is
about 1 + d_j. Powers are those of `cerp.graph.arithmetic`. Someone without items gets popularity.
Users of training are such histories, too, where a graph filter beside the vectors knows the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cerp.choices import ValuePrecision
from cerp.data.ids import Float32Array, Int32Array
from cerp.data.interactions import Interactions
from cerp.graph.arithmetic import DoubleArray, inverse_power
from cerp.graph.neighbours import TAKERS, Levels


@dataclass(frozen=True, eq=False)
class HistorySums:
    """How much each item counts in the vector of someone who has it."""

    exponent: float
    """t: a multiple of 1/32 between 0 and 2."""
    popularity: Levels
    """l, of each item."""

    @cached_property
    def weights(self) -> DoubleArray:
        """``w`` of each item."""
        weights: DoubleArray = inverse_power(TAKERS, self.exponent)[self.popularity]
        return weights

    def vector(self, items: Float32Array, history: Int32Array) -> DoubleArray:
        """``Σ_j w_j v_j`` over distinct items, which are added one after the other."""
        taken = np.sort(history)
        parts = items[taken].astype(np.float64) * self.weights[taken, None]
        if not len(parts):
            return np.zeros(items.shape[1])
        total: DoubleArray = np.add.accumulate(parts, axis=0)[-1]
        return total


class HistoryVectors:
    """Scores of users of training by their histories, in float32: for choosing among vectors."""

    def __init__(self, items: Float32Array, sums: HistorySums, train: Interactions) -> None:
        from scipy.sparse import csr_array

        self.items = items
        values = sums.weights[train.item].astype(np.float32)
        shape = (train.num_users, train.num_items)
        self.taken = csr_array((values, train.item, train.user_offsets), shape=shape)

    def score_all(self, users: Int32Array) -> Float32Array:
        """Of all items, (len(users), num_items)."""
        scores: Float32Array = (self.taken[users] @ self.items) @ self.items.T
        return scores

    def users(self) -> Float32Array:
        """The vectors of all users, (num_users, dim)."""
        vectors: Float32Array = self.taken @ self.items
        return vectors


@dataclass(frozen=True, eq=False)
class SummedItems:
    """Vectors of items as they are stored, and how much each counts in a sum."""

    sums: HistorySums
    books: tuple[Float32Array, ...]
    """``v_i = Σ_b books[b][c_ib]``; without codes one table with a row for each item."""
    codes: Int32Array | None
    """c, (number of items, number of books)."""
    values: ValuePrecision
    """The precision in which the books are stored."""

    def __len__(self) -> int:
        return sum(book.size for book in self.books)

    @property
    def num_items(self) -> int:
        """All items, those that nobody took included."""
        return len(self.sums.popularity)

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return int(self.books[0].shape[1])

    @cached_property
    def vectors(self) -> Float32Array:
        """v, (number of items, dim), before anything is rounded."""
        if self.codes is None:
            return self.books[0]
        parts = [book[self.codes[:, place]] for place, book in enumerate(self.books)]
        total: Float32Array = np.sum(parts, axis=0, dtype=np.float32)
        return total
