"""Models small enough to look at, of every backbone and with every kind of table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cerp.artifact.model import ComposedEmbedding, PropagatedTables, Seen, ShippedModel, Table
from cerp.assignment.index import Index
from cerp.data.ids import Ids

NUM_USERS, NUM_ITEMS, DIM = 25, 40, 12
ENTITIES = NUM_USERS + NUM_ITEMS
BACKBONES = ("mf", "mlp", "lightgcn", "propagated")


def small_model(backbone: str = "mf", seed: int = 0) -> ShippedModel:
    """Two pruned codebooks, shuffled positions, integer ids from 100, 3 to 8 items a user.

    ``propagated`` is a LightGCN model that carries its vectors instead of its codebooks.
    """
    rng = np.random.default_rng(seed)
    model = ShippedModel(
        facts={"method": "cerp", "budget": "50%"},
        users=Ids(np.arange(100, 100 + NUM_USERS)),
        items=Ids(np.sort(rng.choice(10_000, NUM_ITEMS, replace=False))),
        head="dot",
        embedding=ComposedEmbedding(
            (pruned(rng, Index("modulo", 9), 9), pruned(rng, Index("scaled", 9), 9))
        ),
        positions=rng.permutation(ENTITIES).astype(np.int32),
        seen=seen(rng),
        titles=[f"Title {code:02}" for code in range(NUM_ITEMS)],
    )
    if backbone == "mlp":
        return replace(model, head="tower", weights=tower(rng, (2 * DIM, 12, 6, 3, 1)))
    if backbone == "lightgcn":
        return replace(model, layers=3)
    if backbone == "propagated":
        tables = PropagatedTables(normal(rng, NUM_USERS, DIM), normal(rng, NUM_ITEMS, DIM))
        return replace(model, layers=3, embedding=tables)
    return model


def coded_model(backbone: str = "mf", books: int = 4, seed: int = 0) -> ShippedModel:
    """The same with learned codes: so many pruned codebooks of 9 rows, and no order of ids."""
    rng = np.random.default_rng(seed)
    tables = (pruned(rng, coded(rng, 9), 9) for _ in range(books))
    return replace(
        small_model(backbone, seed), embedding=ComposedEmbedding(tuple(tables)), positions=None
    )


def coded(rng: np.random.Generator, rows: int, entities: int = ENTITIES) -> Index:
    return Index("coded", rows, codes=rng.integers(0, rows, entities, dtype=np.int32))


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def pruned(
    rng: np.random.Generator, index: Index, rows: int, columns: int = DIM, kept: float = 0.5
) -> Table:
    mask = rng.random((rows, columns)) < kept
    return Table(index, np.where(mask, normal(rng, rows, columns), np.float32(0)), mask)


def seen(rng: np.random.Generator) -> Seen:
    rows = [
        np.sort(rng.choice(NUM_ITEMS, rng.integers(3, 9), replace=False)) for _ in range(NUM_USERS)
    ]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Seen(offsets, np.concatenate(rows).astype(np.int32))


def tower(rng: np.random.Generator, widths: tuple[int, ...]) -> dict[str, np.ndarray]:
    names = ["first", *(f"rest.{layer}" for layer in range(len(widths) - 2))]
    weights = {}
    for name, inputs, outputs in zip(names, widths, widths[1:], strict=False):
        weights[f"{name}.weight"] = normal(rng, outputs, inputs)
        weights[f"{name}.bias"] = normal(rng, outputs)
    return weights
