"""`VectorTable`: rows of vectors that are read when they are asked for, and their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Float32Array, Ids, Int64Array, id_column
from cerp.errors import DataError

STRETCH = 1 << 15
"""Rows that are read together."""


@dataclass(frozen=True, eq=False)
class VectorTable:
    """(count, dim) numbers somewhere, in memory or in a file, and the id of each row."""

    values: Any
    """Something of two dimensions that gives an array for an index of rows: an array, or a file
    that is mapped into memory."""
    ids: Ids
    """In native order: integers ascend."""
    order: Int64Array | None = None
    """The row of `values` for each id; None: they are in the same order."""
    widen: Callable[[npt.NDArray[Any]], Float32Array] | None = None
    """From numbers as they are stored to float32, where NumPy has no word for them."""

    @property
    def shape(self) -> tuple[int, int]:
        """(count, dim)"""
        return int(self.values.shape[0]), int(self.values.shape[1])

    def rows(self, places: Int64Array | slice) -> Float32Array:
        """Vectors of some places, float32 and finite."""
        if self.order is not None:
            places = self.order[places]
        read = np.asarray(self.values[places])
        found = self.widen(read) if self.widen else read.astype(np.float32)
        if not np.isfinite(found).all():
            raise DataError(
                "the vectors hold values that are not finite, or too large for 32 bits; remove "
                "those rows, or replace the values"
            )
        return found

    def stretches(self) -> Iterator[slice]:
        """All places, some at a time."""
        count = self.shape[0]
        return (slice(start, min(start + STRETCH, count)) for start in range(0, count, STRETCH))


def table_of(
    values: Any,
    ids: Any = None,
    *,
    name: str = "the vectors",
    widen: Callable[[npt.NDArray[Any]], Float32Array] | None = None,
) -> VectorTable:
    """A table of an array, checked; ids 0..n-1 where none are given."""
    if len(values.shape) != 2 or not values.shape[0] or not values.shape[1]:
        raise DataError(
            f"{name} must be a table of (rows, numbers), with some of each, got the shape "
            f"{tuple(values.shape)}"
        )
    if widen is None and np.dtype(values.dtype).kind not in "fiu":
        raise DataError(f"{name} must be numbers, got {values.dtype}")
    count = int(values.shape[0])
    if ids is None:
        return VectorTable(values, Ids.range(count), widen=widen)
    column = id_column(ids, "vector")
    if len(column) != count:
        raise DataError(f"there are {len(column):,} ids for {count:,} vectors; give one for each")
    order: Int64Array | None = None
    if column.dtype.kind == "i":
        order = np.argsort(column, kind="stable")
        column = column[order]
        if (order[1:] > order[:-1]).all():
            order = None
        repeated = column[1:][column[1:] == column[:-1]]
    else:
        kept, counts = np.unique(column.astype(str), return_counts=True)
        repeated = kept[counts > 1]
    if len(repeated):
        raise DataError(f"the id {repeated[0]!r} stands for two vectors; ids must be distinct")
    return VectorTable(values, Ids(column), order, widen)
