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
from cerp.graph.term import FilterTerm

FloatArray = npt.NDArray[np.float32]


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
            part = table.weight[table.index.rows(positions, num_entities)]
            if self.combine == "concat":
                result[:, begin : begin + part.shape[1]] = part
                begin += part.shape[1]
            elif number == 0:
                result[:] = part
            else:
                with np.errstate(over="ignore", invalid="ignore"):  # who ranks by them looks
                    join(result, part, out=result)
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
class Seen:
    """Training interactions by user, then item: the graph of propagation, and what users know."""

    offsets: Int64Array
    """(number of users + 1,): where the items of each user begin."""
    items: Int32Array
    """Item codes, ascending within a user."""


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
    without vectors."""
    embedding: ComposedEmbedding | PropagatedTables | None
    """None: the filter alone ranks."""
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
    precision: ValuePrecision | None = None
    """Of the embedding's values in the file that the model was read from."""
    titles: list[str] | None = None
    """What to call items on a page, by code."""

    @property
    def dim(self) -> int:
        """Length of a vector; 0 without vectors."""
        return 0 if self.embedding is None else self.embedding.dim
