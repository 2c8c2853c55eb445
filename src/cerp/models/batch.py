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
