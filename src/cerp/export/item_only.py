"""A model of vectors without its users: the rows of items, and what folding in needs.

Whoever asks brings the items that they like, and gets a vector by `cerp.runtime.folding`. Of
users the file has the mean and the variance of each number of their vectors, and nothing else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cerp.artifact import ColdStart, ComposedEmbedding, Index, ShippedModel, Table, Tastes
from cerp.data.ids import Ids, Int32Array
from cerp.errors import ConfigError


def items_only(model: ShippedModel) -> ShippedModel:
    """The model without users, interactions, and rows that no item has."""
    embedding = model.embedding
    if not isinstance(embedding, ComposedEmbedding) or model.head != "dot" or model.layers:
        raise ConfigError(
            "a file without users has vectors that are scored by a dot product as they are stored, "
            "without a graph; train mf, or leave out item_only=True"
        )
    num_users, num_entities = len(model.users), len(model.users) + len(model.items)
    positions = model.positions
    if positions is None:
        positions = np.arange(num_entities, dtype=np.int32)
    users = embedding.vectors(positions[:num_users], num_entities).astype(np.float64)
    return replace(
        model,
        users=Ids.range(0),
        embedding=rows_of_items(embedding, positions, num_users),
        positions=None,
        seen=None,
        cold=_unseen(model),
        tastes=Tastes(users.mean(axis=0).astype(np.float32), users.var(axis=0).astype(np.float32)),
    )


def _unseen(model: ShippedModel) -> ColdStart | None:
    """Items that training never saw, without saying who took the others."""
    found = model.cold_start
    if found is None or not len(found.items):
        return None
    return ColdStart(np.empty(0, dtype=np.int32), found.items, None)


def rows_of_items(
    embedding: ComposedEmbedding, positions: Int32Array, num_users: int
) -> ComposedEmbedding:
    """Tables with the rows of items alone, which they then have by codes, or one after another."""
    items = positions[num_users:]
    return replace(
        embedding, tables=tuple(_alone(one, items, len(positions)) for one in embedding.tables)
    )


def _alone(table: Table, items: Int32Array, num_entities: int) -> Table:
    used, codes = np.unique(table.index.rows(items, num_entities), return_inverse=True)
    index = Index("coded", len(used), codes=codes.astype(np.int32))
    if len(used) == len(items):  # a row for each: in the order of items it needs no codes
        used, index = table.index.rows(items, num_entities), Index("identity")
    mask = None if table.mask is None else table.mask[used]
    return Table(index, table.weight[used], mask)
