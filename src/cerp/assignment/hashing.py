"""Which codebook rows an entity is made of.

Positions k run over 0..N-1 (see `cerp.assignment.ordering`). All arithmetic is in
64-bit integers: k·b passes 2^31 for large tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from cerp.choices import Hashing
from cerp.errors import ConfigError

if TYPE_CHECKING:  # serving uses this module without torch
    from torch import Tensor


@dataclass(frozen=True)
class Hash:
    """Two row numbers per position, and how many rows each codebook has.

    - ``balanced``: ``k_p = k mod b``, ``k_q = k·b div N``; every row of both is used if b <= N.
    - ``paper``: ``k_p = k mod b``, ``k_q = k div ⌈N/b⌉``; some rows of Q are never reached.
    - ``quotient-remainder``: ``k_p = k mod b'``, ``k_q = k div b'`` with b' = 2b: the
      imbalanced codebooks of the paper's ablation.

    Two positions never share both rows: the first two hashes give one row of P to positions
    at least b apart and one row of Q to positions less than ⌈N/b⌉ apart, and a bucket count
    with ⌈N/b⌉ > b is refused.
    """

    name: Hashing
    num_positions: int
    buckets: int

    def __post_init__(self) -> None:
        if self.name not in get_args(Hashing):
            names = ", ".join(get_args(Hashing))
            raise ConfigError(f"there is no hash {self.name!r}; choose one of {names}")
        if self.num_positions < 1 or self.buckets < 1:
            raise ConfigError(
                "an embedding needs at least 1 entity and 1 bucket, "
                f"got {self.num_positions} and {self.buckets}"
            )
        if self.buckets > self.num_positions:
            raise ConfigError(
                f"{self.buckets:,} buckets for {self.num_positions:,} entities: more rows than "
                f"entities compress nothing. Give at most {max(self.num_positions // 2, 1):,}, "
                "where both codebooks together have as many rows as the full table"
            )
        if self.name != "quotient-remainder" and self.positions_per_row > self.buckets:
            raise ConfigError(
                f"{self.buckets} buckets cannot tell {self.num_positions:,} entities apart; "
                f"the smallest bucket count that can is {smallest_bucket_count(self.num_positions)}"
            )

    @property
    def positions_per_row(self) -> int:
        """⌈N/b⌉: the most positions that share a row of P, and of Q."""
        return -(-self.num_positions // self.buckets)

    @property
    def rows(self) -> tuple[int, int]:
        """Rows of P and of Q."""
        if self.name == "quotient-remainder":
            remainders = 2 * self.buckets
            return remainders, -(-self.num_positions // remainders)
        return self.buckets, self.buckets

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """``(k_p, k_q)`` of positions."""
        k = positions.long()
        if self.name == "quotient-remainder":
            return k % self.rows[0], k // self.rows[0]
        if self.name == "paper":
            return k % self.buckets, k // self.positions_per_row
        return k % self.buckets, k * self.buckets // self.num_positions


def smallest_bucket_count(num_positions: int) -> int:
    """The smallest b with ``⌈N/b⌉ <= b``, so that all (k_p, k_q) differ: ``⌈√N⌉``."""
    return math.isqrt(max(num_positions - 1, 0)) + 1
