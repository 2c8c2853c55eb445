"""Item neighbours that fill a limit: as many weights of one origin as there is room for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from cerp.errors import BudgetError
from cerp.graph.arithmetic import DoubleArray, inverse_power
from cerp.graph.ease import cosine, ease, refitted, strongest_cooccurrence
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents
from cerp.graph.neighbours import Bits, Neighbours, popularity_levels, pruned, quantised

Kind = Literal["ease", "cosine", "filter"]
Fullness = Callable[[Neighbours], float]
"""The share of their limit that neighbours take; up to 1 they fit."""

DENSE_ITEMS = 6_000
"""Up to so many items the support comes from EASE with all weights, beyond from the cosine."""
PER_ITEM = 100
"""Sources of a target before anything is pruned, where the support comes from elsewhere."""
AIM, ENOUGH = 0.997, 0.99
"""Shares of the limit: what a guess of the number of weights aims at, and what ends the search."""
MOST_GUESSES = 8
MOST_FITS = 4
"""How often weights are fitted again for another number of them."""


@dataclass(frozen=True)
class Recipe:
    """Where weights come from, and how finely they are written."""

    kind: Kind
    bits: Bits
    regularization: float | None = None
    """λ of EASE."""
    exponents: Exponents | None = None
    """Of the graph filter."""


@dataclass(frozen=True, eq=False)
class Weights:
    """All weights of an origin that may be kept."""

    matrix: Any
    """A SciPy matrix, targets in rows."""
    importance: DoubleArray | None = None
    """What a source's weights are multiplied by when the largest are looked for."""
    regularization: float | None = None
    """λ with which those that are kept are fitted again; None: they stay as they are."""


@dataclass(frozen=True, eq=False)
class Fitting:
    """Neighbours that fit into their limit."""

    neighbours: Neighbours
    fullness: float


class Builder:
    """Neighbours of one training graph under one limit.

    Parameters
    ----------
    edges
        The training graph.
    fullness
        What decides whether neighbours fit.
    most
        More weights than this fit in no case.

    """

    def __init__(self, edges: Edges, fullness: Fullness, most: int) -> None:
        self.edges, self.fullness, self.most = edges, fullness, most
        self.popularity = popularity_levels(edges.item_degrees)

    @cached_property
    def beside(self) -> float:
        """The share of the limit that is taken before there is any weight."""
        from scipy.sparse import csr_array

        none = csr_array((self.edges.num_items, self.edges.num_items))
        return self.fullness(quantised(none, 4, self.popularity))

    def weights(self, recipe: Recipe) -> Weights:
        """What may be kept, for all precisions of a recipe."""
        if recipe.kind == "ease":
            assert recipe.regularization is not None, "EASE has a regularization"
            matrix = pruned(self._ease(recipe.regularization), self.most)
            return Weights(matrix, regularization=recipe.regularization)
        degrees = self.edges.item_degrees
        # A weight is used as often as its source is taken; half of that in the exponent keeps
        # the loud weights of rare sources as well.
        importance = np.sqrt(degrees.astype(np.float64))
        if recipe.kind == "cosine":
            return Weights(self._cosine, importance)
        assert recipe.exponents is not None, "the filter has exponents"
        matrix = strongest_cooccurrence(
            self.edges,
            PER_ITEM,
            start=inverse_power(degrees, recipe.exponents.p),
            middle=inverse_power(self.edges.user_degrees, recipe.exponents.q),
            end=inverse_power(degrees, recipe.exponents.r),
            importance=importance,
        )
        # Only their proportions matter, and half precision ends at 2^-24.
        matrix.data = matrix.data / matrix.data.max(initial=np.finfo(np.float64).tiny)
        return Weights(matrix, importance)

    def _ease(self, regularization: float) -> Any:
        from scipy.sparse import csr_array

        if self.edges.num_items <= DENSE_ITEMS:
            return csr_array(np.maximum(ease(self.edges, regularization), 0))
        return refitted(self.edges, self._cosine, regularization)

    @cached_property
    def _cosine(self) -> Any:
        return cosine(self.edges, PER_ITEM)

    def fitting(self, weights: Weights, bits: Bits) -> Fitting:
        """As many weights as there is room for, the largest."""

        def kept(count: int) -> Any:
            return pruned(weights.matrix, count, weights.importance)

        def rounded(matrix: Any) -> Neighbours:
            return quantised(matrix, bits, self.popularity)

        start = min(self.most, int(weights.matrix.nnz))
        found, count = self._filled(lambda count: rounded(kept(count)), start, start, MOST_GUESSES)
        if (penalty := weights.regularization) is not None:
            # Fitted weights round to zero more or less often than those they were pruned by.
            found, _ = self._filled(
                lambda count: rounded(refitted(self.edges, kept(count), penalty)),
                count,
                start,
                MOST_FITS,
            )
        return found

    def _filled(
        self, make: Callable[[int], Neighbours], count: int, available: int, guesses: int
    ) -> tuple[Fitting, int]:
        """What fills the limit best, and how many weights were asked for to have it."""
        fits, exceeds = (0, self.beside), (available + 1, np.inf)
        best: tuple[Fitting, int] | None = None
        while guesses > 0 and self.beside < 1 and fits[0] < count < exceeds[0]:
            found = make(count)
            share = self.fullness(found)
            guesses -= 1
            if share > 1:
                exceeds = count, share
                guesses += best is None and guesses == 0  # go on until something fits
            else:
                fits = count, share
                best = Fitting(found, share), count
                if share > ENOUGH:
                    break
            count = _next(fits, exceeds, self.beside)
        if best is None:
            raise BudgetError("not a single weight between two items fits; allow more bytes")
        return best


def _next(fits: tuple[int, float], exceeds: tuple[int, float], beside: float) -> int:
    """A number between two, by the line through their shares."""
    (low, first), (high, second) = fits, exceeds
    if not np.isfinite(second):  # the line through what is taken without any weight
        guess = low * (AIM - beside) / (first - beside) if first > beside else 2.0 * low
    else:
        guess = low + (high - low) * (AIM - first) / (second - first)
    return int(min(max(guess, low + 1), high - 1))
