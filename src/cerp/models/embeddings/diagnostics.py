"""What is left of two codebooks after pruning, counted over all entities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cerp.assignment.usage import Mask, Usage
from cerp.data.ids import Int64Array


@dataclass(frozen=True)
class Diagnostics(Usage):
    """The counts of `cerp.assignment.usage.Usage`, and the entities that became alike."""

    collisions: int
    """Entities that cannot be told from an earlier one, because the row in which the two
    differ is empty in both. 0 before pruning: no two entities share both rows."""


def collisions(masks: Sequence[Mask], rows: Iterable[Sequence[Int64Array]]) -> int:
    """Entities that two codebooks do not tell from an earlier one; arguments as `count_usage`."""
    has_values: list[Mask] = [mask.sum(axis=1) > 0 for mask in masks]
    alone_in = [np.zeros_like(own) for own in has_values]  # rows that alone make up a vector
    empty = alone = 0
    for row_p, row_q in rows:
        some_p, some_q = has_values[0][row_p], has_values[1][row_q]
        empty += int((~some_p & ~some_q).sum())
        only_p, only_q = row_p[some_p & ~some_q], row_q[some_q & ~some_p]
        alone += len(only_p) + len(only_q)
        alone_in[0][only_p] = alone_in[1][only_q] = True
    return alone - sum(int(own.sum()) for own in alone_in) + max(empty - 1, 0)
