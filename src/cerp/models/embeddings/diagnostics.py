"""What is left of codebooks after pruning, counted over all entities."""

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
    """Entities that cannot be told from an earlier one, because the rows in which the two
    differ are empty in both, or because they have the same rows. A hash gives no two entities
    the same rows; learned codes may."""


def collisions(masks: Sequence[Mask], rows: Iterable[Sequence[Int64Array]]) -> int:
    """Entities that codebooks do not tell from an earlier one; arguments as `count_usage`."""
    has_values: list[Mask] = [mask.sum(axis=1) > 0 for mask in masks]
    keys = []
    for chunk in rows:
        # All empty rows of a book are alike: they get the number behind its last one.
        told = [
            np.where(some[own], own, len(some)) for some, own in zip(has_values, chunk, strict=True)
        ]
        keys.append(np.stack(told, axis=1).astype(np.int32))
    if not keys:
        return 0
    entities = np.concatenate(keys)
    return len(entities) - len(np.unique(entities, axis=0))
