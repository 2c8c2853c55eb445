"""Single columns through the layers of LightGCN, with NumPy alone and nothing to be prepared.

`cerp.runtime.propagation` takes all columns of a table through all layers. For one list there
are a dozen columns at most, and to import SciPy or to sort edges by item takes longer than
they do. With Â of that module, cut into the steps between the kinds, ``Â = [0 R; Rᵀ 0]``:

- the items' part of ``P x`` is ``1/(L+1) · (x_I + Rᵀ (x_U + R (x_I + ...)))``: L steps;
- ``P e_n`` of a node n is on users in every other layer and on items in the others: L steps,
  of which the first lead along few edges.
"""

from __future__ import annotations

import numpy as np

from cerp.artifact.model import Seen
from cerp.data.ids import Int64Array
from cerp.graph.edges import places
from cerp.runtime.propagation import DoubleArray

FEW_EDGES = 0.1
"""Up to this share of the edges they are looked up; beyond, all of them are walked along."""


class ColumnSteps:
    """``P = 1/(L+1) · Σ_{l=0..L} Â^l`` over the graph of what users have seen, by columns.

    Parameters
    ----------
    seen
        The graph.
    num_items
        How many items there are.
    layers
        L.

    """

    def __init__(self, seen: Seen, num_items: int, layers: int) -> None:
        self.seen, self.layers = seen, layers
        self.items = seen.items.astype(np.intp)  # what NumPy would make of them at every step
        self.user_degrees: Int64Array = np.diff(seen.offsets)
        self.item_degrees: Int64Array = np.bincount(self.items, minlength=num_items)
        self.user_scale, self.item_scale = map(_scale, (self.user_degrees, self.item_degrees))
        self.active = np.flatnonzero(self.user_degrees)

    @property
    def most_sums(self) -> int:
        """Terms that are added on the way to one value, layer by layer, at most."""
        kinds = sorted(int(each.max(initial=0)) for each in (self.user_degrees, self.item_degrees))
        return self.layers // 2 * kinds[0] + (self.layers + 1) // 2 * kinds[1]

    def of_items(self, users: DoubleArray, items: DoubleArray) -> DoubleArray:
        """The items' part of ``P x``, given x of users and of items."""
        column, is_users = (items, False) if self.layers % 2 == 0 else (users, True)
        for _ in range(self.layers):
            column = items + self._to_items(column) if is_users else users + self._to_users(column)
            is_users = not is_users
        return column / (self.layers + 1)

    def from_node(self, node: int) -> DoubleArray:
        """``P e_n``; users first, then items."""
        num_users = len(self.user_degrees)
        kinds = [np.zeros(num_users), np.zeros(len(self.item_degrees))]
        kind = 0 if node < num_users else 1
        kinds[kind][node - kind * num_users] = 1
        column = kinds[kind].copy()
        for _ in range(self.layers):
            column = self._to_users(column) if kind else self._to_items(column)
            kind = 1 - kind
            kinds[kind] += column
        return np.concatenate(kinds) / (self.layers + 1)

    def as_defined(self, column: DoubleArray) -> DoubleArray:
        """``P x``, added in the order of `cerp.runtime.propagation`, to the bit."""
        scale = np.concatenate([self.user_scale, self.item_scale])
        num_users, num_items = len(self.user_degrees), len(self.item_degrees)
        owner = np.repeat(np.arange(num_users), self.user_degrees)
        layer, total = column.copy(), column.copy()
        for _ in range(self.layers):
            layer *= scale
            users = np.bincount(owner, layer[num_users:][self.items], num_users)
            items = np.bincount(
                self.items, np.repeat(layer[:num_users], self.user_degrees), num_items
            )
            layer = np.concatenate([users, items]) * scale
            total += layer
        total /= self.layers + 1
        return total

    def _to_users(self, items: DoubleArray) -> DoubleArray:
        """``R x``"""
        result = np.zeros(len(self.user_degrees))
        given = items * self.item_scale
        present = np.flatnonzero(given != 0)
        if len(present) == 1:
            edges = np.flatnonzero(self.seen.items == present[0])
            owners = np.searchsorted(self.seen.offsets, edges, side="right") - 1
            result[owners] = given[present[0]]
        elif len(present):
            # Clipping skips a check of bounds that costs as much as the gathering.
            along = np.take(given, self.items, mode="clip")
            result[self.active] = np.add.reduceat(along, self.seen.offsets[:-1][self.active])
        result *= self.user_scale
        return result

    def _to_items(self, users: DoubleArray) -> DoubleArray:
        """``Rᵀ x``"""
        given = users * self.user_scale
        present = np.flatnonzero(given != 0)
        counts = self.user_degrees[present]
        if counts.sum() > FEW_EDGES * len(self.items):
            ends, weights = self.items, np.repeat(given, self.user_degrees)
        else:
            ends = self.items[places(self.seen.offsets[present], counts)]
            weights = np.repeat(given[present], counts)
        sums: DoubleArray = np.bincount(ends, weights, len(self.item_degrees)) * self.item_scale
        return sums


def _scale(degrees: Int64Array) -> DoubleArray:
    """``d^(-1/2)``; 0 where there are no edges."""
    result = np.zeros(len(degrees))
    np.divide(1, np.sqrt(degrees), out=result, where=degrees > 0)
    return result
