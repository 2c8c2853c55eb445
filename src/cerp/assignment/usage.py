"""What the stored values of tables add up to, entity by entity; plain NumPy.

Training and the model file count with the same function, so that they agree:
counted is what is stored, also values that were rounded to zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np
import numpy.typing as npt

from cerp.assignment.index import Combine, Index
from cerp.data.ids import Int64Array

Mask = npt.NDArray[np.bool_]

FEW = 3
"""An entity with stored values at no more places than these has few."""
ENTITIES_AT_ONCE = 2**16
"""Entities that are looked at together."""


@dataclass(frozen=True)
class Usage:
    """Counts over all N entities k, with nz(·) the places of the stored values of a row.

    The paper names its two measures without formulas ("the average of the
    actual embedding dimension", "the percentage of overlapping non-zero
    dimensions between the two meta-embeddings"); with those below,
    ``average_dimension + d · overlap`` is the mean number of values that two
    tables have for an entity, which agrees with the paper's printed pairs.
    """

    stored_values: int
    """Values in all tables."""
    sparsity: float
    """``1 - stored values / (N·d)``"""
    average_dimension: float
    """Mean number of places at which the vector of an entity has a stored value: for a sum of
    two tables |nz(p_k)| + |nz(q_k)| - |nz(p_k) ∩ nz(q_k)|, the size of the union."""
    overlap: float | None
    """Mean over entities and over pairs of tables of ``|nz(p_k) ∩ nz(q_k)| / d``; None where
    vectors are no sum of tables."""
    dimension_deviation: float
    """Standard deviation, over entities, of what `average_dimension` is the mean of."""
    empty_entities: int
    """Entities without a stored value: their vector is zero."""
    few_values: int
    """Entities with stored values at no more than `FEW` places, the empty ones among them."""
    dead_rows: int
    """Rows that no entity uses."""
    empty_rows: int
    """Rows without a stored value."""


def count_usage(
    masks: Sequence[Mask],
    rows: Iterable[Sequence[Int64Array]],
    *,
    full_table: int,
    combine: Combine = "sum",
) -> Usage:
    """Count over entities given some at a time; memory is that of as many vectors.

    Parameters
    ----------
    masks
        Of each table, (rows, columns): which of its values are stored.
    rows
        For some entities at a time, their row in each of the tables.
    full_table
        N·d: the values of a table with a vector for every entity.
    combine
        How the rows of an entity become its vector.

    """
    pairs = list(combinations(range(len(masks)), 2)) if combine == "sum" else []
    reached = [np.zeros(len(mask), dtype=bool) for mask in masks]
    shared = 0
    sizes = [np.zeros(0, dtype=np.int64)]
    for chunk in rows:
        parts = [mask[own] for mask, own in zip(masks, chunk, strict=True)]
        together = _stored_places(parts, combine)
        sizes.append(together.sum(axis=1))
        shared += sum(int((parts[one] & parts[other]).sum()) for one, other in pairs)
        for seen, own in zip(reached, chunk, strict=True):
            seen[own] = True
    places = np.concatenate(sizes)
    entities = len(places)
    stored = sum(int(mask.sum()) for mask in masks)
    shareable = entities * masks[0].shape[1] * len(pairs)
    return Usage(
        stored_values=stored,
        sparsity=1 - stored / max(full_table, 1),
        average_dimension=int(places.sum()) / max(entities, 1),
        overlap=shared / max(shareable, 1) if pairs else None,
        dimension_deviation=float(places.std()) if entities else 0.0,
        empty_entities=int((places == 0).sum()),
        few_values=int((places <= FEW).sum()),
        dead_rows=sum(int((~seen).sum()) for seen in reached),
        empty_rows=sum(int((~mask.any(axis=1)).sum()) for mask in masks),
    )


def rows_of_entities(
    indices: Sequence[Index], num_entities: int, *, left_out: int | None = None
) -> Iterator[list[Int64Array]]:
    """The row in each table, for some positions at a time; ``left_out``: a position to skip."""
    for begin in range(0, num_entities, ENTITIES_AT_ONCE):
        positions = np.arange(begin, min(begin + ENTITIES_AT_ONCE, num_entities))
        if left_out is not None:
            positions = positions[positions != left_out]
        yield [index.rows(positions, num_entities) for index in indices]


def _stored_places(parts: Sequence[Mask], combine: Combine) -> Mask:
    """Where a vector can differ from zero: in any summand, in every factor, or side by side."""
    if combine == "concat":
        return np.concatenate(parts, axis=1)
    return reduce(np.logical_or if combine == "sum" else np.logical_and, parts)
