"""Scores by a tower (an MLP): exact ones in float64, and fast ones that preselect.

For one user and m items, most of the time goes into the product of all items' first layers with
the second layer's weights. In float32 it takes half as long, and a bound on its rounding error
says which few items have to be scored exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from cerp.artifact.model import FloatArray
from cerp.data.ids import Int32Array, Int64Array
from cerp.errors import ScoreError
from cerp.runtime.scoring import (
    LARGEST_SCORE,
    TOO_LARGE,
    DoubleArray,
    Excluded,
    Queries,
    best_of,
    blocks,
    norms,
)
from cerp.runtime.selection import SMALLEST, UNIT_ROUNDOFF, Lists, contenders, product_error, ranked
from cerp.runtime.tower_layers import TowerLayers

MOST_CONTENDERS = 0.25
"""Where a larger share of the items may be in a list, all of them are scored exactly."""


class Layer(NamedTuple):
    """``relu(x) W + b`` for rows x."""

    weight: DoubleArray
    bias: DoubleArray


class TowerHead:
    """``score(u, i) = w·relu(W₃ relu(W₂ relu(W_u e_u + b₁ + W_i e_i) + b₂) + b₃) + b``

    ``W_i e_i`` is computed once for every item, ``W_u e_u + b₁`` once for every query.
    """

    def __init__(self, items: FloatArray, weights: Mapping[str, FloatArray]) -> None:
        double = {name: values.astype(np.float64) for name, values in weights.items()}
        dim = items.shape[1]
        self.user_weight = double["first.weight"][:, :dim].T
        self.bias = double["first.bias"]
        self.item_halves = items @ double["first.weight"][:, dim:].T
        self.rest = [
            Layer(double[f"rest.{layer}.weight"].T, double[f"rest.{layer}.bias"])
            for layer in range(len(double) // 2 - 1)
        ]
        self.multiplications = len(items) * sum(layer.weight.size for layer in self.rest)

    def queries(self, vectors: FloatArray) -> DoubleArray:
        """``W_u e_u + b₁``"""
        return vectors @ self.user_weight + self.bias

    def scores(self, queries: Queries, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items, (len(queries), number of items)."""
        halves = self.item_halves[items]
        result = np.empty((len(queries), len(halves)), dtype=np.float32)
        for block in blocks(len(halves), queries.nbytes):
            # Pairs in one row of rows: a product of two matrices, not of a stack of them.
            pairs = (queries[:, None] + halves[block]).reshape(-1, halves.shape[1])
            result[:, block] = self._exact(pairs).reshape(len(queries), -1)
        return result

    def best(self, queries: Queries, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each query."""
        places = self._places(queries, k, excluded)
        if places is None:
            return best_of(self.scores(queries, slice(None)), k, excluded)
        rows, columns = places
        exact = np.empty(len(rows), dtype=np.float32)
        for block in blocks(len(rows), 8 * self.item_halves.shape[1]):
            exact[block] = self._exact(queries[rows[block]] + self.item_halves[columns[block]])
        return ranked(rows, columns, exact, len(queries), k)

    def _places(
        self, queries: Queries, k: int, excluded: Excluded
    ) -> tuple[Int64Array, Int64Array] | None:
        """Places that can be in a list; None where float32 does not tell items apart."""
        shifts = self.estimates.shifts(queries)
        margin = self.estimates.margin(shifts)
        if margin is None:
            return None
        scores = self.estimates.scores(shifts)
        excluded.mask(scores)
        rows, columns = contenders(scores, k, margin)
        return (rows, columns) if len(rows) <= MOST_CONTENDERS * scores.size else None

    @cached_property
    def estimates(self) -> Estimates:
        """Made when a list is asked for first."""
        return Estimates(self.item_halves, self.rest)

    def _exact(self, hidden: DoubleArray) -> FloatArray:
        """Scores of pairs by their first layers, which are written to."""
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
            for weight, bias in self.rest:
                hidden = np.maximum(hidden, 0, out=hidden) @ weight
                hidden += bias
            result = hidden[:, 0].astype(np.float32)
        if not np.isfinite(result).all():
            raise ScoreError(TOO_LARGE)
        return result


class Estimates:
    """The same scores in float32, and how far they may be off.

    What all items have in common is kept apart, for ``relu(x + c) = max(x, −c) + c``: with the
    shifts ``c_0`` the query and ``c_(l+1) = W c_l + b``, items go through
    ``x_0 = max(a, −c_0)`` and ``x_(l+1) = max(W x_l, −c_(l+1))``, one pass over them a layer, and
    the score is ``W x_L + c_(L+1)``.

    With e a bound on the error of x and n one on its length, both for all items, ``W x`` is off
    by at most ``‖W‖₂ e + γ ‖W‖_F (n + e)`` and no longer than ``‖W‖₂ n``. The larger of that and a
    shift, rounded to float32, is off by a rounding of the shift more, and longer by no more than
    its length. γ is that of `product_error`.
    """

    def __init__(self, item_halves: DoubleArray, layers: list[Layer]) -> None:
        self.longest = norms(item_halves).max()
        self.layers = layers
        with np.errstate(over="ignore"):  # `margin` refuses what does not fit
            self.single = TowerLayers(
                item_halves.astype(np.float32), [weight.astype(np.float32) for weight, _ in layers]
            )

    @cached_property
    def _sizes(self) -> list[tuple[int, float, float]]:
        """Of each layer: inputs, ``‖W‖₂``, ``‖W‖_F``."""
        return [
            (len(weight), float(np.linalg.norm(weight, 2)), float(np.linalg.norm(weight)))
            for weight, _ in self.layers
        ]

    def shifts(self, queries: Queries) -> list[DoubleArray]:
        """``c_0``, ``c_1``, ... of each query."""
        found = [queries.astype(np.float64)]
        with np.errstate(over="ignore", invalid="ignore"):  # `margin` refuses what does not fit
            for weight, bias in self.layers:
                found.append(found[-1] @ weight + bias)
        return found

    def margin(self, shifts: list[DoubleArray]) -> DoubleArray | None:
        """How far the scores of queries with such shifts may be off; None: beyond float32."""
        shift = norms(shifts[0])
        length: DoubleArray = self.longest + shift
        if not length.max(initial=0) < LARGEST_SCORE:
            return None
        error: DoubleArray = 4 * UNIT_ROUNDOFF * length
        for (inputs, spectral, frobenius), following in zip(self._sizes, shifts[1:], strict=True):
            shift = norms(following)
            if not (frobenius * length + shift).max(initial=0) < LARGEST_SCORE:
                return None
            rounding = product_error(inputs) * (frobenius * (length + error) + shift)
            error = spectral * error + rounding + inputs * SMALLEST
            length = spectral * length + shift
        return error

    def scores(self, shifts: list[DoubleArray]) -> FloatArray:
        """Of all items for each query."""
        last = shifts[-1][:, 0].astype(np.float32)
        least = [-shift.astype(np.float32) for shift in shifts[:-1]]
        result = np.empty((len(last), self.single.num_items), dtype=np.float32)
        for query, row in enumerate(result):
            row[:] = self.single.through([floor[query] for floor in least])
        result += last[:, None]
        return result
