"""A training batch, as models read it."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Batch(NamedTuple):
    """B positives with k negatives each, as user and item codes (int64)."""

    users: Tensor
    """(B,)"""
    positives: Tensor
    """(B,)"""
    negatives: Tensor
    """(B, k); never something that the user in the same row has taken."""

    def of_rank(self, rank: int, world: int) -> Batch:
        """The part of a data-parallel process: all rows of the users that fall to it.

        No user is split, so what is counted once per user adds up exactly.
        """
        mine = self.users % world == rank
        return Batch(self.users[mine], self.positives[mine], self.negatives[mine])
