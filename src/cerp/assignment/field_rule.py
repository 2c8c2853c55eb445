"""How the codes of many fields are laid out, for a budget: groups of columns, books and rows.

A vector of d columns is cut into g groups; in each it is the sum of one row from each of m books
of K rows. All of it stores ``m·K·d`` values and ``g·m·⌈log2 K⌉`` bits for each id: groups give more
bits for the same values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

BITS_A_COLUMN = 3
"""Of codes, at most, where values are limited and codes are not counted: a tenth of what a column
takes in 32 bits. MovieLens-100K, DeepFM, 99%, validation AUC with 1, 2 and 3 bits a column: .776,
.784 and .787, at full size .788."""
ROWS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
SCALE_BYTES = 2
"""A row's scale, where its values are integers of 8 bits."""


class Layout(NamedTuple):
    """Groups of columns, and the books of each."""

    groups: int
    """g"""
    books: int
    """m, of each group."""
    rows: int
    """K, of each book."""
    columns: int
    """d"""

    @property
    def values(self) -> int:
        """``m·K·d``"""
        return self.books * self.rows * self.columns

    @property
    def bits(self) -> int:
        """Of the codes of an id: ``g·m·⌈log2 K⌉``."""
        return self.groups * self.books * (self.rows - 1).bit_length()

    @property
    def choices(self) -> float:
        """``log2`` of how many different vectors there are: ``g·m·log2 K``."""
        return self.groups * self.books * math.log2(self.rows)

    def bytes(self, ids: int) -> int:
        """Values in a byte each, a scale for each row, and the codes of all ids."""
        scales = SCALE_BYTES * self.groups * self.books * self.rows
        return self.values + scales + math.ceil(ids * self.bits / 8)


def layout_of_values(limit: int, ids: int, columns: int) -> Layout | None:
    """The layout with most different vectors that stores at most ``limit`` values.

    Codes have at most 3 bits a column. Among equals it is the one of fewest groups, then that of
    most rows. None: no layout is as small.
    """
    most = BITS_A_COLUMN * columns
    found = (one for one in _layouts(ids, columns, limit) if one.bits <= most)
    return _best(found)


def layout_of_bytes(size: int, ids: int, columns: int) -> Layout | None:
    """The layout with most different vectors that takes at most so many bytes, codes included."""
    return _best(one for one in _layouts(ids, columns, size) if one.bytes(ids) <= size)


def _layouts(ids: int, columns: int, values: int) -> Iterator[Layout]:
    for groups in range(1, columns + 1):
        if columns % groups:
            continue
        for rows in (rows for rows in ROWS if rows <= max(ids, 2)):
            for books in range(1, min(values // (rows * columns), 8 * columns) + 1):
                yield Layout(groups, books, rows, columns)


def _best(found: Iterator[Layout]) -> Layout | None:
    return max(found, key=lambda one: (one.choices, -one.groups, one.rows), default=None)
