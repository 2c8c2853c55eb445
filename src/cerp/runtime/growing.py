"""A model that takes in new interactions: new users and items join, those there keep their rows.

Nothing is trained here. The graph grows by the new interactions, which is all that a graph filter
needs, and much of what LightGCN does. A new entity has the vector that its neighbours stand for:
with w the weights of the walks of two steps to entities of its own side that were there,

    ``x_new = scale · Σ_j w_j x_j / Σ_j w_j``,  ``w_j = Σ_{m in both} 1 / d_m``,

where ``scale`` gives it the mean length of theirs. In a sum of codebook rows it gets the rows that
come closest to that, book by book and then each again with the others fixed. In a product or
a concatenation it gets the rows of the entity whose vector comes closest. A table with a row for
everybody grows by the vector itself; one that is pruned does not grow, and rows are shared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cerp.artifact import Index
from cerp.artifact.model import (
    ComposedEmbedding,
    FloatArray,
    PropagatedTables,
    Seen,
    ShippedModel,
    Table,
    popularity_of,
)
from cerp.data.ids import Id, Ids, Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import ConfigError, DataError
from cerp.graph.history_sums import HistorySums

ROUNDS = 3
"""How often each row of a new entity is chosen again, the others fixed."""
DROPPED_FACTS = ("metrics", "ordering", "hash")
"""Figures are of the model before, and rows are stored from now on."""


class Grown(NamedTuple):
    """A model after it took in interactions."""

    model: ShippedModel
    train: Interactions
    """All that it knows now."""
    new_users: int
    new_items: int
    new_interactions: int
    repeated: int
    """Interactions that it knew already."""


def grow(model: ShippedModel, new: Interactions) -> Grown:
    """The model with new interactions, and with the users and items that came with them."""
    if model.seen is None:
        raise ConfigError(
            "this model does not say what users have seen, so that nothing can join it; export it "
            "with the seen items"
        )
    users, old_users, new_users = _joined(model.users, new.users, "user")
    items, old_items, new_items = _joined(model.items, new.items, "item")
    known = np.repeat(np.arange(len(model.users)), np.diff(model.seen.offsets))
    train = Interactions.from_codes(
        np.concatenate([old_users[known], new_users[new.user]]),
        np.concatenate([old_items[model.seen.items], new_items[new.item]]),
        users=users,
        items=items,
    )
    seen = Seen(train.user_offsets.astype(np.int64), train.item)
    sides = (
        _Side(old_users, seen, len(items)),
        _Side(old_items, _turned(seen, len(items)), len(users)),
    )
    grown = replace(
        model,
        users=users,
        items=items,
        seen=seen,
        positions=None,
        embedding=_embedding(model, sides),
        sums=_sums(model, seen, len(items)),
        titles=_titles(model, items, new.titles),
        facts=_facts(model, train, len(new) - train.duplicates),
    )
    return Grown(
        grown,
        train,
        len(users) - len(model.users),
        len(items) - len(model.items),
        len(new) - train.duplicates,
        train.duplicates,
    )


def _joined(old: Ids, new: Ids, side: str) -> tuple[Ids, Int64Array, Int64Array]:
    """All ids in native order, and where those of each went."""
    if old.are_integers != new.are_integers:
        kinds = ["integers" if ids.are_integers else "strings" for ids in (old, new)]
        raise DataError(
            f"the {side} ids of the model are {kinds[0]}, those of the new interactions {kinds[1]}"
            + ('; ids="string" keeps them as text' if new.are_integers else "")
        )
    union, codes = Ids.in_native_order(np.concatenate([old.values, new.values]))
    return union, codes[: len(old)].astype(np.int64), codes[len(old) :].astype(np.int64)


def _facts(model: ShippedModel, train: Interactions, added: int) -> dict[str, Any]:
    nothing = train.subset(np.zeros(len(train), dtype=bool))
    facts = {name: fact for name, fact in model.facts.items() if name not in DROPPED_FACTS}
    return {
        **facts,
        "fingerprint": Splits(train, nothing, nothing).fingerprint,
        "updates": int(model.facts.get("updates", 0)) + 1,
        "added_interactions": int(model.facts.get("added_interactions", 0)) + added,
    }


def _titles(model: ShippedModel, items: Ids, new: dict[Id, str]) -> list[str] | None:
    if model.titles is None and not new:
        return None
    old = dict(zip(model.items.values.tolist(), model.titles or (), strict=False))
    return [old.get(item) or new.get(item) or str(item) for item in items.values.tolist()]


def _sums(model: ShippedModel, seen: Seen, num_items: int) -> HistorySums | None:
    """Items count in the sums of those who have them by how often they are taken now."""
    if model.sums is None:
        return None
    return replace(model.sums, popularity=popularity_of(seen, num_items))


class _Side:
    """The users, or the items: who was there, who is new, and their neighbours."""

    def __init__(self, old: Int64Array, edges: Seen, num_others: int) -> None:
        self.old, self.edges = old, edges
        self.count = len(edges.offsets) - 1
        is_new = np.ones(self.count, dtype=bool)
        is_new[old] = False
        self.new = np.flatnonzero(is_new)
        self.place = np.full(self.count, -1, dtype=np.int64)
        self.place[old] = np.arange(len(old))
        self.others = _turned(edges, num_others)

    def targets(self, vectors: FloatArray) -> FloatArray:
        """For every new entity the vector that its neighbours stand for; (new, dim)."""
        found = np.empty((len(self.new), vectors.shape[1]), dtype=np.float32)
        mean = vectors.mean(axis=0, dtype=np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        for row, entity in enumerate(self.new.tolist()):
            weights = self._weights(entity)
            near = np.flatnonzero(weights)
            if not near.size:  # only strangers: the average of all
                found[row] = mean
                continue
            share = weights[near] / weights[near].sum()
            centre = share @ vectors[near]
            length = np.linalg.norm(centre)
            found[row] = centre * (share @ lengths[near] / length if length > 0 else 1.0)
        return found

    def _weights(self, entity: int) -> npt.NDArray[np.float64]:
        """``Σ_m 1 / d_m`` over what both took, of all that were there."""
        weights = np.zeros(len(self.old))
        for other in _row(self.edges, entity).tolist():
            mates = self.place[_row(self.others, other)]
            mates = mates[mates >= 0]
            weights[mates] += 1 / max(1, len(mates))
        return weights


def _embedding(
    model: ShippedModel, sides: tuple[_Side, _Side]
) -> ComposedEmbedding | PropagatedTables | None:
    embedding = model.embedding
    if embedding is None:
        return None
    if isinstance(embedding, PropagatedTables):
        return PropagatedTables(
            _with_rows(embedding.users, sides[0]), _with_rows(embedding.items, sides[1])
        )
    total, in_tables = model.num_composed, sides if model.sums is None else sides[1:]
    positions = np.arange(total) if model.positions is None else model.positions.astype(np.int64)
    vectors = embedding.vectors(positions, total)
    parts = np.split(vectors, np.cumsum([len(side.old) for side in in_tables])[:-1])
    targets = np.concatenate(
        [side.targets(part) for side, part in zip(in_tables, parts, strict=True)]
    )
    if not len(targets) and model.positions is None:
        return embedding
    firsts = np.cumsum([0, *(side.count for side in in_tables)])[:-1]
    old = np.concatenate([first + side.old for first, side in zip(firsts, in_tables, strict=True)])
    new = np.concatenate([first + side.new for first, side in zip(firsts, in_tables, strict=True)])
    if len(embedding.tables) == 1 and _is_whole(embedding.tables[0]):
        weight = np.empty((len(old) + len(new), embedding.dim), dtype=np.float32)
        weight[old], weight[new] = vectors, targets
        return ComposedEmbedding((Table(Index("identity"), weight),), embedding.combine)
    rows = [table.index.rows(positions, total) for table in embedding.tables]
    chosen = _chosen_rows(embedding, rows, vectors, targets)
    tables = []
    for table, of_old, of_new in zip(embedding.tables, rows, chosen, strict=True):
        codes = np.empty(len(old) + len(new), dtype=np.int32)
        codes[old], codes[new] = of_old, of_new
        index = Index("coded", size=len(table.weight), codes=codes)
        tables.append(replace(table, index=index))
    return ComposedEmbedding(tuple(tables), embedding.combine)


def _is_whole(table: Table) -> bool:
    return table.index.kind == "identity" and table.mask is None


def _with_rows(table: FloatArray, side: _Side) -> FloatArray:
    grown = np.empty((side.count, table.shape[1]), dtype=np.float32)
    grown[side.old], grown[side.new] = table, side.targets(table)
    return grown


def _chosen_rows(
    embedding: ComposedEmbedding,
    rows: list[Int64Array],
    vectors: FloatArray,
    targets: FloatArray,
) -> list[Int64Array]:
    """The row of every table that each target gets."""
    if embedding.combine == "sum" and len(rows) > 1:
        return _nearest_sums([table.weight for table in embedding.tables], targets)
    nearest = _nearest(vectors, targets)
    return [of_old[nearest] for of_old in rows]


def _nearest_sums(books: list[FloatArray], targets: FloatArray) -> list[Int64Array]:
    """Rows whose sum comes close to each target: greedily, then by coordinate descent."""
    rest = targets.astype(np.float64)
    chosen: list[Int64Array] = []
    for book in books:
        rows = _nearest(book, rest)
        rest -= book[rows]
        chosen.append(rows)
    for _ in range(ROUNDS):
        for place, book in enumerate(books):
            rest += book[chosen[place]]
            chosen[place] = _nearest(book, rest)
            rest -= book[chosen[place]]
    return chosen


def _nearest(table: FloatArray, targets: npt.NDArray[np.floating[Any]]) -> Int64Array:
    """The row at the least distance from each target; the first of equals."""
    squares = np.einsum("nd,nd->n", table, table, dtype=np.float64)
    found = np.empty(len(targets), dtype=np.int64)
    for start in range(0, len(targets), 256):
        block = targets[start : start + 256]
        found[start : start + 256] = np.argmin(squares - 2 * (block @ table.T), axis=1)
    return found


def _turned(edges: Seen, num_others: int) -> Seen:
    """The same edges from the other side."""
    counts = np.diff(edges.offsets)
    rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    order = np.argsort(edges.items, kind="stable")
    sizes = np.bincount(edges.items, minlength=num_others)
    return Seen(np.concatenate(([0], np.cumsum(sizes))), rows[order])


def _row(edges: Seen, entity: int) -> Int32Array:
    return edges.items[edges.offsets[entity] : edges.offsets[entity + 1]]
