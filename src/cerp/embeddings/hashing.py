"""Which codebook rows an entity is made of.

Positions k run over 0..N-1 (see `cerp.data.ordering`). All arithmetic is in
64-bit integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from cerp.errors import ConfigError

HashName = Literal["balanced", "paper", "quotient-remainder"]


@dataclass(frozen=True)
class Hash:
    """Two row numbers per position, and how many rows each codebook has.

    - ``balanced``: ``k_p = k mod b``, ``k_q = k·b div N``; every row of both is used.
    - ``paper``: ``k_p = k mod b``, ``k_q = k div ⌈N/b⌉``; some rows of Q are never reached.
    - ``quotient-remainder``: ``k_p = k mod b'``, ``k_q = k div b'`` with b' = 2b: the
      imbalanced codebooks of the paper's ablation.

    Two entities never share both rows; a bucket count with which they would is refused.
    """

    name: HashName
    num_positions: int
    buckets: int

    def __post_init__(self) -> None:
        if self.buckets < 1:
            raise ConfigError(f"the bucket count must be at least 1, got {self.buckets}")
        if self.name != "quotient-remainder" and self.positions_per_row > self.buckets:
            raise ConfigError(
                f"{self.buckets} buckets cannot tell {self.num_positions:,} entities apart; "
                f"the smallest bucket count that can is {smallest_bucket_count(self.num_positions)}"
            )

    @property
    def positions_per_row(self) -> int:
        """⌈N/b⌉"""
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
    """The smallest b with ``⌈N/b⌉ <= b``, so that all (k_p, k_q) differ."""
    return math.isqrt(max(num_positions - 1, 0)) + 1
