"""The graph filter: a recommender that is made of the training edges and three exponents.

    F(u, i) = d_i^-r · Σ_{j ∈ N(u)} d_j^-p · Σ_{v ∈ N(j) ∩ N(i)} d_v^-q

Its arithmetic is defined to the bit, so that a file read elsewhere ranks alike. All numbers
are float64; powers are those of `cerp.graph.arithmetic`; sums start from 0 and add one term
after the other:

1. ``a_v = Σ d_j^-p`` over the items j of the user that user v also took, ascending j;
2. ``h_v = a_v · d_v^-q``;
3. ``s_i = Σ h_v`` over the users v of item i, ascending v;
4. ``F_i = s_i · d_i^-r``, rounded once to float32.

An item that no path reaches has F = 0 and is scored ``−1 / (1 + d_i)``, rounded to float32:
below every item that is reached, and by popularity. So someone without items gets
popularity, and no ranking depends on how items are numbered before it has to.

Only the items of a user enter: someone who was not in training gets the same scores from the
same items. (Of u itself the sum over v holds ``h_u``, but only for items that u has.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array
from cerp.errors import ConfigError
from cerp.evaluation.popularity import popularity_scores
from cerp.evaluation.ranking import top_k
from cerp.graph.arithmetic import DoubleArray, inverse_power, nearest_exponent
from cerp.graph.edges import Edges
from cerp.graph.sharpening import ItemHops, Sharpening, sharpened
from cerp.graph.two_hops import TwoHops

Float32Array = npt.NDArray[np.float32]

ROWS = 16
"""Histories that are ranked together: their scores stay in cache."""


@dataclass(frozen=True, order=True)
class Exponents:
    """How much a degree counts against a path; rounded to multiples of 1/32."""

    q: float
    """Of the user in the middle."""
    p: float
    """Of the item that the path starts from."""
    r: float
    """Of the item that is scored."""

    def __post_init__(self) -> None:
        for name in ("q", "p", "r"):
            object.__setattr__(self, name, nearest_exponent(getattr(self, name)))


class GraphFilter:
    """Scores by the filter of the module's docstring.

    Parameters
    ----------
    edges
        The training graph.
    exponents
        The three exponents.
    sharpening
        What is done to ``s`` before the last step (`cerp.graph.sharpening`); None: nothing.

    """

    def __init__(
        self, edges: Edges, exponents: Exponents, sharpening: Sharpening | None = None
    ) -> None:
        self.edges, self.exponents, self.sharpening = edges, exponents, sharpening
        self.start = inverse_power(edges.item_degrees, exponents.p)
        self.middle = inverse_power(edges.user_degrees, exponents.q)
        self.end = inverse_power(edges.item_degrees, exponents.r)
        self.floor = popularity_scores(edges.item_degrees)
        self.hops = TwoHops(edges)
        self.item_hops = None if sharpening is None else ItemHops(edges, exponents.q, sharpening.m)

    @property
    def num_items(self) -> int:
        """Columns of the scores."""
        return self.edges.num_items

    def score_all(self, users: Int32Array) -> Float32Array:
        """Scores of all items for some users of training, (len(users), num_items)."""
        scores = np.empty((len(users), self.num_items), dtype=np.float32)
        for row, sums in zip(scores, self.sums(self._histories(users)), strict=True):
            # Row by row, while it is in cache.
            row[:] = np.multiply(sums, self.end, out=sums)
            np.copyto(row, self.floor, where=row == 0)
        return scores

    def score_history(self, items: npt.ArrayLike) -> Float32Array:
        """Scores of all items for anyone who took some items, given in any order."""
        scores = self.strength_history(items)
        np.copyto(scores, self.floor, where=scores == 0)
        return scores

    def best(
        self,
        histories: Sequence[Int32Array],
        k: int,
        *,
        hidden: Sequence[Int32Array] | None = None,
        without: Int32Array | None = None,
    ) -> tuple[Int32Array, Float32Array]:
        """The k best items of each history, as from its scores, in less time.

        Parameters
        ----------
        histories
            Distinct item codes of each user, ascending.
        k
            Length of a list.
        hidden
            What each list does without; None: the history.
        without
            More items that no list holds.

        Returns
        -------
        Item codes and their scores, (len(histories), k), best first, ties by item code; -1 and
        -inf where there are no more items.

        """
        listed = np.empty((len(histories), min(k, self.num_items)), dtype=np.int32)
        scores = np.empty(listed.shape, dtype=np.float32)
        strengths = np.empty((ROWS, self.num_items), dtype=np.float32)
        sums = self.sums(histories)
        hidden = histories if hidden is None else hidden
        for begin in range(0, len(histories), ROWS):
            chunk = hidden[begin : begin + ROWS]
            rows = strengths[: len(chunk)]
            for row, left_out in zip(rows, chunk, strict=True):
                total = next(sums)
                row[:] = np.multiply(total, self.end, out=total)
                row[left_out] = -np.inf
            if without is not None:
                rows[:, without] = -np.inf
            items, found = top_k(rows, k)
            short = np.flatnonzero(found[:, -1] <= 0)
            if short.size:  # not enough items are reached: popularity follows
                filled = rows[short]
                np.copyto(filled, self.floor, where=filled == 0)
                items[short], found[short] = top_k(filled, k)
            listed[begin : begin + ROWS], scores[begin : begin + ROWS] = items, found
        return listed, scores

    def strengths(self, users: Int32Array) -> Float32Array:
        """F itself for some users of training: 0 where no path leads, (len(users), num_items)."""
        return self.strengths_of(self._histories(users))

    def strengths_of(self, histories: Sequence[Int32Array]) -> Float32Array:
        """The same for anyone, by distinct item codes of each, ascending."""
        result = np.empty((len(histories), self.num_items), dtype=np.float32)
        for row, sums in zip(result, self.sums(histories), strict=True):
            row[:] = np.multiply(sums, self.end, out=sums)
        return result

    def strength_history(self, items: npt.ArrayLike) -> Float32Array:
        """F itself for anyone who took some items."""
        sums = next(self.sums([checked_history(items, self.num_items)]))
        return (sums * self.end).astype(np.float32)

    def _histories(self, users: Int32Array) -> list[Int32Array]:
        return [self.edges.history(int(user)) for user in users]

    def sums(self, histories: Sequence[Int32Array]) -> Iterator[DoubleArray]:
        """``s_i`` of the definition, sharpened; the caller's until it asks for the next row."""
        sums = self.hops.sums(histories, self.start, self.middle)
        if self.sharpening is None or self.item_hops is None:
            return sums
        return sharpened(sums, self.item_hops, self.sharpening)


def unreached_by_popularity(strengths: Float32Array, item_degrees: Int64Array) -> None:
    """Write the floor where the strength of an item is 0."""
    np.copyto(strengths, popularity_scores(item_degrees), where=strengths == 0)


def checked_history(items: npt.ArrayLike, num_items: int) -> Int32Array:
    """Distinct item codes in ascending order."""
    codes = np.unique(np.asarray(items))
    if not codes.size:
        return np.empty(0, dtype=np.int32)
    if codes.dtype.kind not in "iu":
        raise ConfigError(f"a history holds item codes, which are integers, not {codes.dtype}")
    if codes[0] < 0 or codes[-1] >= num_items:
        raise ConfigError(f"item codes must be in 0..{num_items - 1}")
    return codes.astype(np.int32)
