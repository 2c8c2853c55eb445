"""Scores of users and items from what a file holds: one class for each head.

A user is asked about by a *query*, a row of numbers made of their vector.
Scores are exact, as `cerp.runtime` defines it: float64, rounded to float32 once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cerp.artifact.model import FloatArray
from cerp.data.ids import Int32Array, Int64Array
from cerp.errors import ScoreError
from cerp.evaluation.ranking import top_k
from cerp.runtime.bounds import Bounds
from cerp.runtime.selection import (
    SMALLEST,
    Lists,
    contenders,
    product_error,
    ranked,
    within_reach,
)

DoubleArray = npt.NDArray[np.float64]
Queries = npt.NDArray[np.floating[Any]]

FEW = 16
"""Up to so many queries, time is spent on reading the item vectors; beyond, on multiplying."""
MOST_IN_REACH = 1024
"""Items for a query; to score more of them one by one takes longer than the whole product."""
LARGEST_SCORE = float(np.finfo(np.float32).max)
TOO_LARGE = (
    "the scores of a user are not finite numbers, or too large to be ranked; "
    "the model has diverged in training"
)
BLOCK_BYTES = 8 * 2**20
"""Size of intermediate results."""


class Excluded(NamedTuple):
    """What may not be in the lists of a batch, by item code."""

    rows: Int64Array
    items: Int32Array
    """For each of the rows an item that its list does without."""
    everywhere: Int32Array
    """Items that all lists do without."""

    def mask(self, scores: FloatArray) -> None:
        """Write -inf, which is never ranked, over their scores."""
        scores[self.rows, self.items] = -np.inf
        scores[:, self.everywhere] = -np.inf


class ScoringHead(Protocol):
    """What the runtime asks of a head."""

    multiplications: int
    """For the scores of all items for one query."""

    def queries(self, vectors: FloatArray) -> Queries:
        """How to ask for users with these vectors."""

    def scores(self, queries: Queries, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items, (len(queries), number of items)."""

    def best(self, queries: Queries, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each query."""


class DotHead:
    """``score(u, i) = ⟨v_u, v_i⟩``"""

    def __init__(self, items: FloatArray) -> None:
        self.items = items
        self.multiplications = items.size
        self.norms = norms(items)
        self.largest_norm = self.norms.max()
        if not np.isfinite(self.largest_norm):
            raise ScoreError(
                "the model holds item vectors that are not finite numbers, which cannot be "
                "ranked; it has diverged in training"
            )

    @cached_property
    def bounds(self) -> Bounds | None:
        """Of scores, where they help."""
        return Bounds.of(self.items, self.norms)

    def queries(self, vectors: FloatArray) -> FloatArray:
        """The vectors themselves."""
        return vectors

    def scores(self, queries: Queries, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items, (len(queries), number of items)."""
        if len(queries):
            self._margin(norms(queries))
        chosen = self.items[items]
        result = np.empty((len(queries), len(chosen)), dtype=np.float32)
        asked = queries.astype(np.float64)
        for block in blocks(len(chosen), 8 * chosen.shape[1]):
            result[:, block] = asked @ chosen[block].astype(np.float64).T
        return result

    def best(self, queries: Queries, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each query."""
        lengths = norms(queries)
        margin = self._margin(lengths)
        places = None
        if len(queries) <= FEW:
            places = self._places_by_bounds(queries, k, excluded, lengths, margin)
        if places is None:
            places = self._places_by_product(queries, k, excluded, lengths, margin)
        return self._ranked(queries, *places, k)

    def estimates(self, queries: Queries) -> tuple[FloatArray, DoubleArray]:
        """All scores by the float32 product, and how far those of each query may be off."""
        margin = self._margin(norms(queries))
        return queries.astype(np.float32, copy=False) @ self.items.T, margin

    def _margin(self, lengths: DoubleArray) -> DoubleArray:
        """How far the product of queries of some lengths may be off."""
        largest = lengths * self.largest_norm
        if not largest.max() < LARGEST_SCORE:
            raise ScoreError(TOO_LARGE)
        dim = self.items.shape[1]
        margin: DoubleArray = product_error(dim) * largest + dim * SMALLEST
        return margin

    def _places_by_product(
        self,
        queries: Queries,
        k: int,
        excluded: Excluded,
        lengths: DoubleArray,
        margin: DoubleArray,
    ) -> tuple[Int64Array, Int64Array]:
        """Places that can be in a list, by the float32 product with all items."""
        scores = queries.astype(np.float32, copy=False) @ self.items.T
        if not lengths.all():
            # Zeros give equal scores, which rank by code: look at the first few only.
            scores[lengths == 0] = -np.arange(len(self.items))
        excluded.mask(scores)
        return contenders(scores, k, margin)

    def _places_by_bounds(
        self,
        queries: Queries,
        k: int,
        excluded: Excluded,
        lengths: DoubleArray,
        margin: DoubleArray,
    ) -> tuple[Int64Array, Int64Array] | None:
        """The same from fewer numbers; None where those do not tell items apart."""
        if self.bounds is None:
            return None
        estimates, slack = self.bounds.estimates(queries, lengths)
        excluded.mask(estimates)
        likely = contenders(estimates, k, np.zeros(len(queries)))
        rows, columns = within_reach(
            estimates + slack, self._ranked(queries, *likely, k), k, margin
        )
        return (rows, columns) if len(rows) <= MOST_IN_REACH * len(queries) else None

    def _ranked(self, queries: Queries, rows: Int64Array, columns: Int64Array, k: int) -> Lists:
        exact = pair_products(queries, rows, self.items, columns).astype(np.float32)
        return ranked(rows, columns, exact, len(queries), k)

    def similar(self, item: int, k: int) -> Lists:
        """The k items with the highest cosine, itself left out: one row."""
        query, dim = self.items[[item]], self.items.shape[1]
        lengths = self.norms[item] * self.norms
        if lengths.max() >= LARGEST_SCORE:  # beyond what the float32 product can estimate
            return self._similar_by_all(query, item, lengths, k)
        inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        cosines = ((query @ self.items.T) * inverse).astype(np.float32)
        cosines[0, item] = -np.inf
        margin = np.array([product_error(dim) + dim * SMALLEST * inverse.max()])
        rows, columns = contenders(cosines, k, margin)
        return ranked(rows, columns, self._cosines(query, columns, lengths), 1, k)

    def _similar_by_all(self, query: FloatArray, item: int, lengths: DoubleArray, k: int) -> Lists:
        columns = np.delete(np.arange(len(self.items)), item)
        cosines = self._cosines(query, columns, lengths)
        return ranked(np.zeros_like(columns), columns, cosines, 1, k)

    def _cosines(self, query: FloatArray, columns: Int64Array, lengths: DoubleArray) -> FloatArray:
        """Exact ones of some items; 0 where a vector has no length."""
        products = pair_products(query, np.zeros_like(columns), self.items, columns)
        exact = np.divide(
            products, lengths[columns], out=np.zeros_like(products), where=lengths[columns] > 0
        )
        return exact.astype(np.float32)


def best_of(scores: FloatArray, k: int, excluded: Excluded) -> Lists:
    """The k best of each row of exact scores, which are written to."""
    excluded.mask(scores)
    columns, best = top_k(scores, k)
    row, rank = np.nonzero(columns >= 0)
    ends = np.searchsorted(row, np.arange(len(scores)), side="right").tolist()
    return Lists([0, *ends[:-1]], ends, columns[row, rank], best[row, rank])


def norms(vectors: Queries) -> DoubleArray:
    """``‖v‖`` of each row, in float64."""
    squares: DoubleArray = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
    return np.sqrt(squares)


def pair_products(
    first: Queries, rows: Int64Array, second: FloatArray, columns: Int64Array
) -> DoubleArray:
    """``⟨first[rows[n]], second[columns[n]]⟩`` for every n, in float64."""
    result = np.empty(len(rows))
    for block in blocks(len(rows), 8 * second.shape[1]):
        result[block] = np.einsum(
            "nd,nd->n", first[rows[block]], second[columns[block]], dtype=np.float64
        )
    return result


def blocks(count: int, row_bytes: int, limit: int = BLOCK_BYTES) -> Iterator[slice]:
    """0..count-1 in stretches of rows that take up to so many bytes, but at least one row."""
    size = max(1, limit // max(1, row_bytes))
    for start in range(0, count, size):
        yield slice(start, start + size)
