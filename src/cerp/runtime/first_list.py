"""One list of a propagated model without the vectors of all: the same to the bit, and far sooner.

With the vectors ``V = P E`` of `cerp.runtime.propagation`, ``P = 1/(L+1) · Σ_l Â^l`` symmetric:

- all scores of a query q are ``P (E q)``: one column is propagated in place of d. That and a bound
  on its rounding say which few items can be in the list;
- the vector of node n is ``(P e_n)ᵀ E``: one column for each of these few.

Both add in another order than the definition does, and in float64: far more digits than the
float32 to which vectors are rounded. A value and its error bound that round to the same float32
at both ends are what the definition gives; columns with another value are propagated as defined.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cerp.artifact.model import ComposedEmbedding, FloatArray, Seen, ShippedModel
from cerp.data.ids import Int32Array, Int64Array
from cerp.runtime.limits import Limits
from cerp.runtime.propagation import DoubleArray, Propagation
from cerp.runtime.rankers import Histories, VectorRanker
from cerp.runtime.scoring import LARGEST_SCORE, Excluded, Queries, blocks, norms, pair_products
from cerp.runtime.selection import SMALLEST, Lists, contenders, product_error, ranked
from cerp.runtime.vectors import composed_table

MOST_ROWS = 24
"""Items that can be in a list; for more of them all vectors are propagated, in no more memory."""
LARGEST_ENTRY = 2.0**64
"""Of composed vectors: nothing overflows on the way."""
ROUNDOFF = 2.0**-53
"""Largest relative error of one rounding to float64."""


def suits(model: ShippedModel) -> bool:
    """Whether the model is one of vectors that are propagated and multiplied."""
    is_composed = isinstance(model.embedding, ComposedEmbedding) and model.seen is not None
    return bool(model.layers) and model.head == "dot" and model.filter is None and is_composed


class FirstListRanker:
    """By the vectors of all nodes, which are made when more than one list is asked for."""

    def __init__(self, model: ShippedModel, limits: Limits) -> None:
        assert model.seen is not None, "`suits` says so"
        self.model, self.limits = model, limits
        self.multiplications = len(model.items) * model.dim
        self.few: FewRows | None = None
        table = composed_table(model)
        if np.abs(table).max(initial=0) < LARGEST_ENTRY:
            self.few = FewRows(table, model.seen, model.layers)
        else:  # also where there are values that are no numbers, which are refused there
            self.full = VectorRanker(model, limits)

    @cached_property
    def full(self) -> VectorRanker:
        """With the vectors of all nodes."""
        return VectorRanker(self.model, self.limits)

    def of_users(self, users: Int32Array) -> Queries:
        """Their vectors."""
        few = self.few  # another thread may do away with it
        if few is None or len(users) != 1:
            return self.full.of_users(users)
        return few.rows(users.astype(np.int64))

    def of_liked(self, items: Int32Array) -> Queries:
        """One query, by folding in."""
        return self.full.of_liked(items)

    def of_histories(self, histories: Histories) -> Queries:
        """Queries by folding in."""
        return self.full.of_histories(histories)

    def scores(self, asked: Queries, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items."""
        return self.full.scores(asked, items)

    def best(self, asked: Queries, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each query."""
        few, self.few = self.few, None  # whoever asks again has all vectors
        found = few.best(asked, k, excluded) if few is not None and len(asked) == 1 else None
        return self.full.best(asked, k, excluded) if found is None else found

    def similar(self, item: int, k: int) -> Lists:
        """By the cosine of vectors."""
        return self.full.similar(item, k)


class FewRows:
    """Vectors of few nodes, and which items can be in one list."""

    def __init__(self, table: FloatArray, seen: Seen, layers: int) -> None:
        self.table, self.num_users = table, len(seen.offsets) - 1
        self.propagation = Propagation(seen, len(table) - self.num_users, layers)
        longest = int(self.propagation.degree.max(initial=0))
        self.underflow = (longest + 1) * table.shape[1] * SMALLEST
        # Of both ways to a value: L sums over neighbours, scaled before and after, added up and
        # divided; here twice, and a sum over all nodes besides.
        roundings = (2 * (layers * (longest + 4) + 4) + len(table)) * ROUNDOFF
        self.error = roundings / (1 - roundings)

    def rows(self, nodes: Int64Array) -> FloatArray:
        """Vectors of some nodes, as `cerp.runtime.propagation` defines them."""
        units = np.zeros((len(self.table), len(nodes)))
        units[nodes, np.arange(len(nodes))] = 1
        weights = self.propagation.through(units).T
        values, sizes = np.zeros((2, len(nodes), self.table.shape[1]))
        for block in blocks(len(self.table), 8 * self.table.shape[1]):
            wide = self.table[block].astype(np.float64)
            values += weights[:, block] @ wide
            sizes += weights[:, block] @ np.abs(wide, out=wide)
        error = self.error * sizes + SMALLEST * ROUNDOFF
        found: FloatArray = (values - error).astype(np.float32) + np.float32(0)  # no -0
        unclear = np.flatnonzero((found != (values + error).astype(np.float32)).any(axis=0))
        if len(unclear):
            found[:, unclear] = self.propagation.of(self.table[:, unclear])[nodes]
        return found

    def best(self, queries: Queries, k: int, excluded: Excluded) -> Lists | None:
        """The list of one query; None where too many items can be in it."""
        products = self.table @ queries[0].astype(np.float32)
        both = np.stack([products, norms(self.table)], axis=1, dtype=np.float64)
        estimates, lengths = self.propagation.through(both)[self.num_users :].T
        largest = float(norms(queries)[0] * lengths.max())
        if not largest < LARGEST_SCORE:
            return None
        margin = (product_error(self.table.shape[1]) + self.error) * largest + self.underflow
        scores = estimates.astype(np.float32)[None]
        excluded.mask(scores)
        rows, columns = contenders(scores, k, np.array([margin]))
        if len(columns) > MOST_ROWS:
            return None
        vectors = self.rows(columns + self.num_users)
        exact: DoubleArray = pair_products(queries, rows, vectors, np.arange(len(columns)))
        return ranked(rows, columns, exact.astype(np.float32), 1, k)
