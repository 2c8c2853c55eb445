"""A model as plain arrays: what training hands over, what the file holds, what serving reads.

Training makes a `ShippedModel`, `cerp.artifact` writes and reads it, and
`cerp.runtime` recommends from it. Entities are users first, then items; an
entity's *code* is its place in `users` or behind them in `items`, its
*position* the number that the tables are indexed by.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.assignment.index import Combine, Index
from cerp.choices import Head, ValuePrecision
from cerp.data.ids import Ids, Int32Array, Int64Array
from cerp.graph.history_sums import HistorySums
from cerp.graph.neighbours import Levels, Neighbours, popularity_levels
from cerp.graph.term import FilterTerm

FloatArray = npt.NDArray[np.float32]

ROWS_IN_CACHE = 2048
"""Vectors that are composed together."""


@dataclass(frozen=True, eq=False)
class Table:
    """One table of embedding values, some of which may be pruned."""

    index: Index
    weight: FloatArray
    """(rows, columns); zero wherever `mask` is false."""
    mask: npt.NDArray[np.bool_] | None = None
    """Which values are stored; None: all of them."""

    @property
    def stored(self) -> npt.NDArray[np.bool_]:
        """Which values are stored, (rows, columns)."""
        return np.ones(self.weight.shape, dtype=bool) if self.mask is None else self.mask


@dataclass(frozen=True, eq=False)
class ComposedEmbedding:
    """``e_k = T_1[r_1(k)] ∘ T_2[r_2(k)] ∘ ...`` with ∘ a sum, a product or a concatenation."""

    tables: tuple[Table, ...]
    combine: Combine = "sum"

    @property
    def dim(self) -> int:
        """Length of a vector."""
        widths = [table.weight.shape[1] for table in self.tables]
        return sum(widths) if self.combine == "concat" else widths[0]

    def vectors(self, positions: npt.NDArray[np.integer[Any]], num_entities: int) -> FloatArray:
        """Vectors of positions, (len(positions), dim)."""
        result = np.empty((len(positions), self.dim), dtype=np.float32)
        join = np.add if self.combine == "sum" else np.multiply
        begin = 0
        # One table after the other: of many, all parts together would not fit into memory.
        for number, table in enumerate(self.tables):
            rows = table.index.rows(positions, num_entities)
            end = begin + table.weight.shape[1]
            into = result[:, begin:end] if self.combine == "concat" else result
            begin = end
            for start in range(0, len(rows), ROWS_IN_CACHE):
                block = slice(start, start + ROWS_IN_CACHE)
                part = table.weight[rows[block]]
                if number == 0 or self.combine == "concat":
                    into[block] = part
                    continue
                with np.errstate(over="ignore", invalid="ignore"):  # who ranks by them looks
                    join(into[block], part, out=into[block])
        return result


@dataclass(frozen=True, eq=False)
class PropagatedTables:
    """The final vectors, after propagation, for serving without the graph."""

    users: FloatArray
    """(number of users, dim), by code."""
    items: FloatArray
    """(number of items, dim), by code."""

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self.items.shape[1])


@dataclass(frozen=True, eq=False)
class Projection:
    """``v = scale · z·M + mean``: what composed vectors z become, in files for lookups alone."""

    matrix: FloatArray
    """M, (numbers in z, numbers in v)."""
    mean: FloatArray
    """(numbers in v,)"""
    scale: float

    def __call__(self, composed: FloatArray) -> FloatArray:
        """The vectors of composed ones, (n, numbers in v): float64, rounded to float32 once."""
        with np.errstate(over="ignore", invalid="ignore"):  # who looks vectors up looks
            projected = composed.astype(np.float64) @ self.matrix.astype(np.float64)
            projected *= self.scale
            projected += self.mean
            return projected.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Seen:
    """Training interactions by user, then item: the graph of propagation, and what users know."""

    offsets: Int64Array
    """(number of users + 1,): where the items of each user begin."""
    items: Int32Array
    """Item codes, ascending within a user."""


def popularity_of(seen: Seen, num_items: int) -> Levels:
    """Levels of how often each item was taken."""
    return popularity_levels(np.bincount(seen.items, minlength=num_items))


@dataclass(frozen=True)
class LeastSquares:
    """Someone new gets a vector by the user's step of ALS (`cerp.runtime.folding`)."""

    alpha: float
    """How much a liked item counts against one that is not liked."""
    regularization: float
    """λ"""


@dataclass(frozen=True, eq=False)
class ColdStart:
    """Of whom and of what training knows nothing, and what such users get: the popular items."""

    users: Int32Array
    """Codes of users without training rows, ascending."""
    items: Int32Array
    """Codes of items that training never saw, ascending."""
    degrees: Int64Array | None
    """How many users took each item in training; None: nobody needs to be given popular items."""

    @classmethod
    def of(cls, seen: Seen, num_items: int) -> ColdStart:
        """What training interactions say about it."""
        degrees = np.bincount(seen.items, minlength=num_items)
        return cls(_where(np.diff(seen.offsets) == 0), _where(degrees == 0), degrees)

    @classmethod
    def of_levels(cls, popularity: npt.NDArray[np.uint8]) -> ColdStart:
        """What levels of popularity say: they rank as degrees do, and nobody took an item of 0."""
        return cls(
            _where(popularity[:0] == 0), _where(popularity == 0), popularity.astype(np.int64)
        )


def _where(chosen: npt.NDArray[np.bool_]) -> Int32Array:
    return np.flatnonzero(chosen).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Tastes:
    """What is left of users where there are none: from it someone new is folded in."""

    mean: FloatArray
    """Of users' vectors, (dim,)."""
    variance: FloatArray
    """Of each number of users' vectors, (dim,)."""


@dataclass(frozen=True, eq=False)
class LookupField:
    """One of several fields of a file for lookups, each with ids of its own."""

    name: str
    ids: Ids
    table: FloatArray | None = None
    """A vector for each id; None: they are composed from the tables that fields share, at places
    behind those of the sharing fields before."""
    values: ValuePrecision = "fp32"
    """Of the table in a file."""


@dataclass(frozen=True, eq=False)
class ShippedModel:
    """Everything that serving needs, and what is known of where it came from."""

    facts: dict[str, Any]
    """Ready for JSON: method, budget, limit, ordering, seed, data fingerprint, conventions,
    metrics, library version."""
    users: Ids
    items: Ids
    head: Head | None
    """How the vectors of a user and an item become a score: their dot product, or a tower; None
    without vectors, and where vectors are for lookups alone."""
    embedding: ComposedEmbedding | PropagatedTables | None
    """None: the filter alone ranks, or the neighbours."""
    positions: Int32Array | None = None
    """Of every entity; None: positions are codes."""
    layers: int = 0
    """Of LightGCN's propagation, before the head; 0: none."""
    weights: dict[str, FloatArray] = field(default_factory=dict)
    """The tower's: ``first.weight``, ``first.bias``, ``rest.0.weight``, ... as in the state_dict
    of the MLP."""
    seen: Seen | None = None
    """Must be there for the filter, and for propagation unless the tables are propagated already:
    one copy for both."""
    filter: FilterTerm | None = None
    """What the graph filter adds to a score; None: nothing."""
    neighbours: Neighbours | None = None
    """Weights between items, which rank alone."""
    sums: HistorySums | None = None
    """How much each item counts in the vector of someone who has it. Tables are then of items
    alone, and there are users only where a filter beside the vectors has the graph."""
    cold: ColdStart | None = None
    """Where training knows nothing; only without `seen`, which says it as well. None without
    both: everybody and everything was in training, or the file does not say."""
    tastes: Tastes | None = None
    """Of users who are not in the file, beside vectors of items."""
    folding: LeastSquares | None = None
    """How vectors of someone new are made of liked items; None: as for any model."""
    precision: ValuePrecision | None = None
    """Of the embedding's values in the file that the model was read from."""
    titles: list[str] | None = None
    """What to call items on a page, by code."""
    projection: Projection | None = None
    """Of a file for lookups: what its composed vectors become; None: they are as they are."""
    fields: tuple[LookupField, ...] | None = None
    """Of a file for lookups in several fields; ``items`` then numbers the ids of those that share
    tables, one behind the other. None: ``items`` are the ids."""

    @property
    def whole_fields(self) -> list[LookupField]:
        """Fields with tables of their own, whose ids are not among the items."""
        return [field for field in self.fields or () if field.table is not None]

    @property
    def num_vectors(self) -> int:
        """How many vectors a full table would have."""
        own = sum(len(field.ids) for field in self.whole_fields)
        return len(self.users) + len(self.items) + own

    @property
    def num_composed(self) -> int:
        """How many entities have rows in tables: items alone where users are sums of theirs."""
        return len(self.items) + (0 if self.sums is not None else len(self.users))

    @property
    def is_item_only(self) -> bool:
        """Whether it knows items and no users: whoever asks brings the items that they like."""
        return not len(self.users)

    @property
    def dim(self) -> int:
        """Length of a vector; 0 without vectors."""
        if self.projection is not None:
            return len(self.projection.mean)
        return 0 if self.embedding is None else self.embedding.dim

    @property
    def cold_start(self) -> ColdStart | None:
        """Where training knows nothing, from what says it; None: nothing does."""
        of_items = self.sums if self.neighbours is None else self.neighbours
        if of_items is not None and self.seen is None:
            return ColdStart.of_levels(of_items.popularity)
        return self.cold if self.seen is None else ColdStart.of(self.seen, len(self.items))

    @property
    def is_lookup(self) -> bool:
        """Whether there are vectors and no way to score: the items are ids to look up."""
        return self.embedding is not None and self.head is None and self.filter is None
