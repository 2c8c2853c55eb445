"""The vectors that a shipped model ranks with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cerp.artifact.model import ComposedEmbedding, FloatArray, PropagatedTables, ShippedModel
from cerp.data.ids import Int32Array
from cerp.errors import DataError
from cerp.runtime.propagation import propagate


class Vectors(NamedTuple):
    """Of users and items, by code; for a tower those that it is fed with."""

    users: Callable[[Int32Array], FloatArray]
    """Of some users. Composed when they are asked for, where that is cheap."""
    items: FloatArray
    """Of all items."""


def vectors_of(model: ShippedModel) -> Vectors:
    """As stored, as composed, or as propagated over the graph."""
    embedding = model.embedding
    assert embedding is not None, "a model without vectors is ranked by its filter"
    if isinstance(embedding, PropagatedTables):
        return Vectors(embedding.users.__getitem__, embedding.items)
    num_entities = model.num_composed
    num_users = num_entities - len(model.items)

    def composed(first: int, last: int) -> FloatArray:
        return _composed(model, embedding, np.arange(first, last, dtype=np.int32))

    if not model.layers:
        return Vectors(
            lambda users: _composed(model, embedding, users), composed(num_users, num_entities)
        )
    if model.seen is None:
        raise DataError(
            "a model with propagation needs its graph or its propagated tables, and this one has "
            "neither; export it again"
        )
    table = propagate(composed_table(model), model.seen, model.layers)
    return Vectors(table[:num_users].__getitem__, table[num_users:])


def composed_table(model: ShippedModel) -> FloatArray:
    """Of all users, then items, before they are propagated."""
    assert isinstance(model.embedding, ComposedEmbedding), "stored tables are not composed"
    entities = np.arange(model.num_composed, dtype=np.int32)
    return _composed(model, model.embedding, entities)


def _composed(
    model: ShippedModel, embedding: ComposedEmbedding, entities: Int32Array
) -> FloatArray:
    positions = entities if model.positions is None else model.positions[entities]
    return embedding.vectors(positions, model.num_composed)
