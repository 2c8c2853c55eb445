"""What the stored values of a model file add up to."""

from __future__ import annotations

from dataclasses import replace

from cerp.artifact.model import PropagatedTables, ShippedModel
from cerp.assignment.usage import Usage, count_usage, rows_of_entities

NOTHING_STORED = Usage(
    stored_values=0,
    sparsity=1.0,
    average_dimension=0.0,
    overlap=None,
    dimension_deviation=0.0,
    empty_entities=0,
    few_values=0,
    dead_rows=0,
    empty_rows=0,
)
"""Of a model without vectors."""


def usage(model: ShippedModel) -> Usage:
    """Count the stored values of a model; memory is that of some thousand vectors."""
    embedding = model.embedding
    if model.neighbours is not None:
        return replace(NOTHING_STORED, stored_values=len(model.neighbours))
    if embedding is None:
        return NOTHING_STORED
    if isinstance(embedding, PropagatedTables):
        return _usage_of_propagated(embedding)
    num_entities = model.num_composed
    found = count_usage(
        [table.stored for table in embedding.tables],
        rows_of_entities([table.index for table in embedding.tables], num_entities),
        full_table=num_entities * embedding.dim,
        combine=embedding.combine,
    )
    return _with_whole_fields(model, found) if model.whole_fields else found


def _with_whole_fields(model: ShippedModel, shared: Usage) -> Usage:
    """What fields with tables of their own add to what others share."""
    own = model.num_vectors - len(model.items)
    stored = shared.stored_values + own * model.dim
    return replace(
        shared,
        stored_values=stored,
        sparsity=1 - stored / (model.num_vectors * model.dim),
        average_dimension=(shared.average_dimension * len(model.items) + own * model.dim)
        / model.num_vectors,
    )


def _usage_of_propagated(tables: PropagatedTables) -> Usage:
    """Dense tables with a row for each entity: a row is empty if all its values are zero."""
    zeros = sum(int((~side.any(axis=1)).sum()) for side in (tables.users, tables.items))
    return Usage(
        stored_values=tables.users.size + tables.items.size,
        sparsity=0.0,
        average_dimension=float(tables.dim),
        overlap=None,
        dimension_deviation=0.0,
        empty_entities=zeros,
        few_values=zeros,
        dead_rows=0,
        empty_rows=zeros,
    )
