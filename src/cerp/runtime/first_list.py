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

import math
from functools import cached_property
from typing import Protocol

import numpy as np

from cerp.artifact.model import ComposedEmbedding, FloatArray, Seen, ShippedModel
from cerp.data.ids import Int32Array, Int64Array
from cerp.runtime.column_steps import ColumnSteps
from cerp.runtime.limits import Limits
from cerp.runtime.propagation import DoubleArray
from cerp.runtime.rankers import Histories, VectorRanker
from cerp.runtime.scoring import (
    LARGEST_SCORE,
    Excluded,
    Queries,
    ScoringHead,
    blocks,
    norms,
    pair_products,
)
from cerp.runtime.selection import SMALLEST, Lists, product_error, ranked
from cerp.runtime.vectors import composed_table

MOST_ROWS = 24
"""Items that can be in a list; for more of them all vectors are propagated, in no more memory."""
STRETCH_BYTES = 2**19
"""Of vectors in float64 that are multiplied while they are in cache."""
LARGEST_ENTRY = 2.0**64
"""Of composed vectors: nothing overflows on the way."""
ROUNDOFF = 2.0**-53
"""Largest relative error of one rounding to float64."""


def suits(model: ShippedModel) -> bool:
    """Whether the model is one of vectors that are propagated and multiplied."""
    is_composed = isinstance(model.embedding, ComposedEmbedding) and model.seen is not None
    return bool(model.layers) and model.head == "dot" and is_composed


class Term(Protocol):
    """What is added to the scores of one list, such as what a graph filter says."""

    estimates: DoubleArray
    """Of all items."""
    error: float
    """How far those may be off, with what the rounding of a sum loses of them."""

    def added(self, scores: FloatArray, items: Int64Array) -> FloatArray:
        """Exact sums, given the exact scores of some items."""


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

    @property
    def head(self) -> ScoringHead:
        """Of all vectors."""
        return self.full.head

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
        found = self.first(asked, k, excluded)
        return self.full.best(asked, k, excluded) if found is None else found

    def first(
        self, asked: Queries, k: int, excluded: Excluded, term: Term | None = None
    ) -> Lists | None:
        """One list, by vectors and a term; None where it takes the vectors of all nodes."""
        few, self.few = self.few, None  # whoever asks again has all vectors
        return None if few is None or len(asked) != 1 else few.best(asked, k, excluded, term)

    def similar(self, item: int, k: int) -> Lists:
        """By the cosine of vectors."""
        return self.full.similar(item, k)


class FewRows:
    """Vectors of few nodes, and which items can be in one list."""

    def __init__(self, table: FloatArray, seen: Seen, layers: int) -> None:
        self.table, self.num_users = table, len(seen.offsets) - 1
        self.steps = ColumnSteps(seen, len(table) - self.num_users, layers)
        # Of both ways to a value: sums over neighbours, scaled before and after, added up and
        # divided; here a sum over all nodes besides, a stretch at a time.
        on_the_way = self.steps.most_sums + 4 * layers + 4
        of_nodes = self._stretch() + len(table) // self._stretch() + 2
        roundings = (2 * on_the_way + of_nodes) * ROUNDOFF
        self.error = roundings / (1 - roundings)

    def _stretch(self) -> int:
        """Nodes whose vectors are made float64 together."""
        width: int = self.table.shape[1]
        return max(1, STRETCH_BYTES // (8 * max(1, width)))

    def rows(self, nodes: Int64Array) -> FloatArray:
        """Vectors of some nodes, as `cerp.runtime.propagation` defines them."""
        weights = np.stack([self.steps.from_node(node) for node in nodes.tolist()])
        values, sizes = np.zeros((2, len(nodes), self.table.shape[1]))
        wide = np.empty((self._stretch(), self.table.shape[1]))
        for block in blocks(len(self.table), 1, self._stretch()):
            part = wide[: len(self.table[block])]
            np.copyto(part, self.table[block])
            values += weights[:, block] @ part
            sizes += weights[:, block] @ np.abs(part, out=part)
        error = self.error * sizes + SMALLEST * ROUNDOFF
        found: FloatArray = (values - error).astype(np.float32) + np.float32(0)  # no -0
        for column in np.flatnonzero((found != (values + error).astype(np.float32)).any(axis=0)):
            defined = self.steps.as_defined(self.table[:, column].astype(np.float64))
            found[:, column] = defined[nodes]
        return found

    def best(
        self, queries: Queries, k: int, excluded: Excluded, term: Term | None = None
    ) -> Lists | None:
        """The list of one query; None where too many items can be in it."""
        largest = self._largest_scores(queries)
        if not largest.max() < LARGEST_SCORE:
            return None
        dim = self.table.shape[1]
        underflow = (self.steps.most_sums + 1) * dim * SMALLEST
        margin = (product_error(dim) + self.error) * largest + underflow
        start = (self.table @ queries[0].astype(np.float32)).astype(np.float64)
        estimates = self.steps.of_items(start[: self.num_users], start[self.num_users :])
        if term is not None:
            estimates += term.estimates
            margin += term.error
        allowed = np.zeros((1, len(estimates)), dtype=np.float32)
        excluded.mask(allowed)
        estimates += allowed[0]
        least = np.partition(estimates - margin, -k)[-k] if k < len(estimates) else -np.inf
        columns = np.flatnonzero((estimates + margin >= least) & (estimates > -np.inf))
        if len(columns) > MOST_ROWS:
            return None
        vectors, rows = self.rows(columns + self.num_users), np.zeros_like(columns)
        products = pair_products(queries, rows, vectors, np.arange(len(columns)))
        exact: FloatArray = products.astype(np.float32)
        return ranked(rows, columns, exact if term is None else term.added(exact, columns), 1, k)

    def _largest_scores(self, queries: Queries) -> DoubleArray:
        """What the products of lengths that enter into the score of each item add up to, at most.

        ``Â √d = √d`` with d the degrees of all nodes, which are 1 and more wherever Â is not 0.
        So ``P 1 <= √d``, and ``P`` of the lengths of all vectors is at most √d times the longest.
        """
        with np.errstate(over="ignore"):
            squares = np.einsum("nd,nd->n", self.table, self.table)
        dim = self.table.shape[1]
        rounded = float(squares.max(initial=0)) * (1 + 2 * product_error(dim))
        longest = math.sqrt(rounded + dim * SMALLEST)
        degrees = np.maximum(self.steps.item_degrees, 1)
        largest: DoubleArray = float(norms(queries)[0]) * longest * np.sqrt(degrees)
        return largest
