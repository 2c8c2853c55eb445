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
from cerp.graph.arithmetic import DoubleArray, inverse_power, nearest_exponent
from cerp.graph.edges import Edges
from cerp.graph.two_hops import TwoHops

Float32Array = npt.NDArray[np.float32]


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

    """

    def __init__(self, edges: Edges, exponents: Exponents) -> None:
        self.edges, self.exponents = edges, exponents
        self.start = inverse_power(edges.item_degrees, exponents.p)
        self.middle = inverse_power(edges.user_degrees, exponents.q)
        self.end = inverse_power(edges.item_degrees, exponents.r)
        self.hops = TwoHops(edges)

    @property
    def num_items(self) -> int:
        """Columns of the scores."""
        return self.edges.num_items

    def score_all(self, users: Int32Array) -> Float32Array:
        """Scores of all items for some users of training, (len(users), num_items)."""
        scores = self.strengths(users)
        unreached_by_popularity(scores, self.edges.item_degrees)
        return scores

    def score_history(self, items: npt.ArrayLike) -> Float32Array:
        """Scores of all items for anyone who took some items, given in any order."""
        scores = self.strength_history(items)
        unreached_by_popularity(scores, self.edges.item_degrees)
        return scores

    def strengths(self, users: Int32Array) -> Float32Array:
        """F itself for some users of training: 0 where no path leads, (len(users), num_items)."""
        result = np.empty((len(users), self.num_items), dtype=np.float32)
        for place, sums in enumerate(self.sums([self.edges.history(user) for user in users])):
            np.multiply(sums, self.end, out=result[place], casting="same_kind")
        return result

    def strength_history(self, items: npt.ArrayLike) -> Float32Array:
        """F itself for anyone who took some items."""
        sums = next(self.sums([checked_history(items, self.num_items)]))
        return (sums * self.end).astype(np.float32)

    def sums(self, histories: Sequence[Int32Array]) -> Iterator[DoubleArray]:
        """``s_i`` of the definition, history by history; each row is valid until the next."""
        return self.hops.sums(histories, self.start, self.middle)


def unreached_by_popularity(strengths: Float32Array, item_degrees: Int64Array) -> None:
    """Write ``−1 / (1 + d_i)`` where the strength of an item is 0."""
    floor = (-1 / (1 + item_degrees)).astype(np.float32)
    np.copyto(strengths, floor, where=strengths == 0)


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
