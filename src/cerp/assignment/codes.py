"""Codes: which row of each book an entity is the sum of, where that was learned; plain NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Codes:
    """Every entity as a sum of rows: ``x_k ≈ Σ_j C_j[c_kj]``, one row of each of m books."""

    codes: Int32Array
    """(N, m): c_kj, the row of book j that belongs to entity k."""
    books: Float32Array
    """(m, rows, dim): the rows as they were fitted, for warm starts."""
    error: float
    """What the sums miss, ``Σ_k w_k ‖x_k - Σ_j C_j[c_kj]‖² / Σ_k w_k ‖x_k‖²``."""
    history: tuple[float, ...]
    """The same after every step of fitting, over the entities the books were fitted to."""
    fitted_to: int
    """How many entities that were: all N, or a sample where all did not fit into memory."""

    @cached_property
    def shared(self) -> int:
        """How many entities have all their codes in common with another one, and so the vector."""
        _, counts = np.unique(distinct_keys(self.codes), return_counts=True)
        return int(counts[counts > 1].sum())

    def vectors(self, entities: Int64Array | slice = slice(None)) -> Float32Array:
        """``Σ_j C_j[c_kj]`` of some entities, (n, dim)."""
        chosen = self.codes[entities]
        total: Float32Array = self.books[0][chosen[:, 0]]
        for book, code in zip(self.books[1:], chosen.T[1:], strict=True):
            total += book[code]
        return total


def distinct_keys(codes: Int32Array) -> Int64Array:
    """One integer for each row of a table, equal where the rows are equal."""
    keys = np.zeros(len(codes), dtype=np.int64)
    highest = 0
    for code in codes.T:
        size = int(code.max(initial=0)) + 1
        if (highest + 1) * size > np.iinfo(np.int64).max:
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
            highest = int(keys.max(initial=0))
        keys *= size
        keys += code
        highest = (highest + 1) * size - 1
    return keys
