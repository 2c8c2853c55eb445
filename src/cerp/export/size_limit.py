"""A model file in at most so many bytes: what does not fit is left out, smallest values first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cerp.artifact import (
    Encoding,
    PropagatedTables,
    ShippedModel,
    ValuesCodec,
    embedding_bytes,
    encode,
    section_bytes,
)
from cerp.errors import BudgetError
from cerp.graph.neighbours import without_smallest

WEIGHT_BITS = 16
"""Of a weight between two items, its place included: more than most take, so that no more are
left out than need be."""
BITS: dict[ValuesCodec, int] = {"fp32": 32, "fp16": 16, "int8": 8, "int4": 4}


@dataclass(frozen=True)
class SizeLimit:
    """How many bytes a model may take; None: any number."""

    embedding: int | None = None
    """Values, positions, scales and order of ids."""
    file: int | None = None
    """Everything."""

    def excess(self, data: bytes) -> int:
        """How many bytes a file is too large by; 0 or less: it fits."""
        excesses = [0]
        if self.embedding is not None:
            excesses.append(embedding_bytes(section_bytes(data)) - self.embedding)
        if self.file is not None:
            excesses.append(len(data) - self.file)
        return max(excesses)


def within(model: ShippedModel, encoding: Encoding, limit: SizeLimit) -> bytes:
    """The model's file in at most so many bytes.

    Where it would take more, the smallest of the stored values are left out:
    a limit is never exceeded.
    """
    return encode(fitted_into(model, encoding, limit), encoding)


def fitted_into(model: ShippedModel, encoding: Encoding, limit: SizeLimit) -> ShippedModel:
    """The model with as many of its values as a file of so many bytes has room for."""
    if limit == SizeLimit():
        return model
    while (excess := limit.excess(encode(model, encoding))) > 0:
        bits = BITS[encoding.values] if model.neighbours is None else WEIGHT_BITS
        model = _without_smallest(model, -(-8 * excess // bits))
    return model


def _without_smallest(model: ShippedModel, count: int) -> ShippedModel:
    """The model without ``count`` of its stored values, the smallest ones."""
    if model.neighbours is not None:
        if count >= len(model.neighbours):
            raise BudgetError(
                "the model does not fit into the limit, not even without its weights; allow more "
                "bytes, or leave out titles or ids"
            )
        return replace(model, neighbours=without_smallest(model.neighbours, count))
    embedding = model.embedding
    if embedding is None:
        raise BudgetError(
            "the model does not fit into the limit, and nothing of it can be left out: a filter "
            "is its graph; allow more bytes, or leave out titles or ids"
        )
    if isinstance(embedding, PropagatedTables) or all(t.mask is None for t in embedding.tables):
        raise BudgetError(
            "the model does not fit into the limit, and nothing of it can be left out: its tables "
            "are dense; choose a coarser value_precision, or a tighter budget"
        )
    sizes = np.concatenate([np.abs(table.weight[table.stored]) for table in embedding.tables])
    if count >= len(sizes):
        raise BudgetError(
            "the model does not fit into the limit, not even without its embedding values; "
            "allow more bytes, or leave out titles, ids or seen items"
        )
    cut = np.partition(sizes, count - 1)[count - 1]
    tables = []
    for table in embedding.tables:
        mask = table.stored & (np.abs(table.weight) > cut)
        tables.append(replace(table, weight=np.where(mask, table.weight, 0), mask=mask))
    return replace(model, embedding=replace(embedding, tables=tuple(tables)))
