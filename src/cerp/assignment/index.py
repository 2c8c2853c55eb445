"""Which row of a table belongs to which position, and how rows become a vector; plain NumPy.

Training, the model file and serving read the same formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array

Combine = Literal["sum", "product", "concat"]
IndexKind = Literal["identity", "modulo", "quotient", "scaled", "hashed", "coded"]

HASH_PRIME = 2**31 - 1
"""With a factor below 2^21, a·k + c stays below 2^53: exact in JavaScript's numbers too."""


@dataclass(frozen=True)
class Index:
    """Which row of a table belongs to position k of N, in 64-bit integers.

    - ``identity``: ``k``;
    - ``modulo``: ``k mod size``;
    - ``quotient``: ``k div size``;
    - ``scaled``: ``k · size div N``;
    - ``hashed``: ``((factor · k + offset) mod HASH_PRIME) mod size``;
    - ``coded``: ``codes[k]``, one of ``size`` rows, chosen for each position and stored.
    """

    kind: IndexKind
    size: int = 0
    factor: int = 0
    offset: int = 0
    codes: Int32Array | None = field(default=None, compare=False, repr=False)
    """Of ``coded`` alone: the row of every position."""

    def rows(self, positions: npt.NDArray[np.integer[Any]], num_entities: int) -> Int64Array:
        """Row numbers of positions."""
        k = positions.astype(np.int64)
        if self.kind == "modulo":
            return k % self.size
        if self.kind == "quotient":
            return k // self.size
        if self.kind == "scaled":
            return k * self.size // num_entities
        if self.codes is not None:
            return self.codes[k].astype(np.int64)
        if self.kind == "hashed":
            return (k * self.factor + self.offset) % HASH_PRIME % self.size
        return k

    def rows_needed(self, num_entities: int) -> int:
        """How many rows a table must have so that every row number is one of them."""
        if num_entities == 0:
            return 0
        if self.kind in ("hashed", "coded"):
            return self.size
        last = np.array([num_entities - 1])
        if self.kind == "modulo":
            last = np.minimum(last, self.size - 1)
        return int(self.rows(last, num_entities)[0]) + 1
