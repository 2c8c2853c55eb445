"""What the stored values of a model add up to, entity by entity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np

from cerp.artifact.model import ComposedEmbedding, PropagatedTables, ShippedModel
from cerp.artifact.positions import Mask
from cerp.data.ids import Int64Array

ENTITIES_AT_ONCE = 2**16


@dataclass(frozen=True)
class Usage:
    """Counts over all N entities k, with nz(·) the places of the stored values of a row.

    As in `cerp.models.embeddings.diagnostics`, for any number of tables.
    """

    stored_values: int
    sparsity: float
    """``1 - stored values / (N·d)``"""
    average_dimension: float
    """Mean number of places at which the vector of an entity has a stored value."""
    overlap: float | None
    """Mean of ``|nz(p_k) ∩ nz(q_k)| / d``, for the sum of two tables."""
    empty_entities: int
    """Entities without a stored value: their vector is zero."""
    dead_rows: int
    """Rows that no entity uses."""
    empty_rows: int
    """Rows without a stored value."""


def usage(model: ShippedModel) -> Usage:
    """Count the stored values of a model; memory is that of some thousand vectors."""
    if isinstance(model.embedding, PropagatedTables):
        return _usage_of_propagated(model.embedding)
    num_entities = len(model.users) + len(model.items)
    masks = [
        np.ones_like(table.weight, dtype=bool) if table.mask is None else table.mask
        for table in model.embedding.tables
    ]
    is_pair = model.embedding.combine == "sum" and len(masks) == 2
    reached = [np.zeros(len(mask), dtype=bool) for mask in masks]
    places = shared = empty = 0
    for rows in _rows_of_entities(model.embedding, num_entities):
        parts = [mask[own] for mask, own in zip(masks, rows, strict=True)]
        together = _stored_places(parts, model.embedding.combine)
        places += int(together.sum())
        empty += int((~together.any(axis=1)).sum())
        shared += int((parts[0] & parts[1]).sum()) if is_pair else 0
        for seen, own in zip(reached, rows, strict=True):
            seen[own] = True
    cells = max(num_entities * model.embedding.dim, 1)
    stored = sum(int(mask.sum()) for mask in masks)
    return Usage(
        stored_values=stored,
        sparsity=1 - stored / cells,
        average_dimension=places / max(num_entities, 1),
        overlap=shared / cells if is_pair else None,
        empty_entities=empty,
        dead_rows=sum(int((~seen).sum()) for seen in reached),
        empty_rows=sum(int((~mask.any(axis=1)).sum()) for mask in masks),
    )


def _usage_of_propagated(tables: PropagatedTables) -> Usage:
    """Dense tables with a row for each entity: a row is empty if all its values are zero."""
    zeros = sum(int((~side.any(axis=1)).sum()) for side in (tables.users, tables.items))
    return Usage(
        stored_values=tables.users.size + tables.items.size,
        sparsity=0.0,
        average_dimension=float(tables.dim),
        overlap=None,
        empty_entities=zeros,
        dead_rows=0,
        empty_rows=zeros,
    )


def _rows_of_entities(
    embedding: ComposedEmbedding, num_entities: int
) -> Iterator[list[Int64Array]]:
    """The row in each table, for some positions at a time."""
    for begin in range(0, num_entities, ENTITIES_AT_ONCE):
        positions = np.arange(begin, min(begin + ENTITIES_AT_ONCE, num_entities))
        yield [table.index.rows(positions, num_entities) for table in embedding.tables]


def _stored_places(parts: list[Mask], combine: str) -> Mask:
    """Where a vector can differ from zero: in any summand, in every factor, or side by side."""
    if combine == "concat":
        return np.concatenate(parts, axis=1)
    return reduce(np.logical_or if combine == "sum" else np.logical_and, parts)
