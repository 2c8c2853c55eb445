"""Vectors and filter that rank together, and who ranks for a model.

Scores are those of `cerp.graph.mixture`. As with vectors alone, a float32 product only says
which items can be in a list; those are scored by the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cerp.artifact.model import FloatArray, ShippedModel
from cerp.data.ids import Int32Array, Int64Array
from cerp.graph.arithmetic import natural_log
from cerp.graph.mixture import log_share, peak_of, shares
from cerp.graph.term import Mixing
from cerp.runtime.first_list import FirstListRanker, suits
from cerp.runtime.limits import Limits
from cerp.runtime.neighbour_ranker import NeighbourRanker
from cerp.runtime.rankers import FilterRanker, Histories, Ranker, VectorRanker
from cerp.runtime.scoring import DotHead, Excluded, Queries, best_of, pair_products
from cerp.runtime.selection import UNIT_ROUNDOFF, Lists, contenders, ranked

DoubleArray = npt.NDArray[np.float64]


def ranker_of(model: ShippedModel, limits: Limits, *, one_list_first: bool = False) -> Ranker:
    """By what the model is made of; `cerp.runtime.first_list` says what one list first means."""
    if model.neighbours is not None:
        return NeighbourRanker(model.neighbours)
    paths = None
    if model.filter is not None:
        assert model.seen is not None, "files of filters hold their graph"
        paths = FilterRanker(model.seen, len(model.items), model.filter)
        if model.embedding is None:
            return paths
    vectors: VectorRanker | FirstListRanker
    if one_list_first and suits(model):
        vectors = FirstListRanker(model, limits)
    else:
        vectors = VectorRanker(model, limits)
    return vectors if paths is None else MixtureRanker(vectors, paths)


@dataclass(frozen=True, eq=False)
class Both:
    """What vectors and filter are asked about."""

    queries: Queries
    histories: Histories

    def __len__(self) -> int:
        return len(self.histories)


class MixtureRanker:
    """``score(u, i) = head(z_u, z_i) + β · log(ε + F(u, i) / max F(u, ·))``"""

    def __init__(self, vectors: VectorRanker | FirstListRanker, paths: FilterRanker) -> None:
        assert paths.mixing is not None, "a mixture says how much its filter counts"
        self.vectors, self.paths, self.mixing = vectors, paths, paths.mixing

    @property
    def multiplications(self) -> int:
        """Those of both parts."""
        return self.vectors.multiplications + self.paths.multiplications

    def of_users(self, users: Int32Array) -> Both:
        """Their vectors and what they took."""
        return Both(self.vectors.of_users(users), self.paths.of_users(users))

    def of_liked(self, items: Int32Array) -> Both:
        """A vector by folding in, and the items themselves."""
        return Both(self.vectors.of_liked(items), self.paths.of_liked(items))

    def of_histories(self, histories: Histories) -> Both:
        """The same of several."""
        return Both(self.vectors.of_histories(histories), self.paths.of_histories(histories))

    def scores(self, asked: Both, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items."""
        scores = self.vectors.scores(asked.queries, items)
        for row, share in zip(scores, self._shares(asked.histories), strict=True):
            row[:] = (
                self.paths.model.floor[items]
                if share is None
                else summed(row, share[items], self.mixing)
            )
        return scores

    def best(self, asked: Both, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each."""
        found = self._first(asked, k, excluded)
        if found is not None:
            return found
        head = self.vectors.head
        if not isinstance(head, DotHead):
            return best_of(self.scores(asked, slice(None)), k, excluded)
        estimates, margin = head.estimates(asked.queries)
        strengths = self.paths.model.strengths_of(asked.histories)
        peaks, largest = np.ones(len(asked)), np.zeros(len(asked))
        addend = np.empty(strengths.shape[1])
        for place, history in enumerate(asked.histories):
            if not len(history):
                estimates[place] = self.paths.model.floor
                continue
            peaks[place] = peak_of(strengths[place], history)
            estimates[place] += estimated(strengths[place], peaks[place], self.mixing, addend)
            largest[place] = largest_size(addend)
        # The estimates, their parts and the exact scores are each rounded once to float32.
        margin = margin + 4 * UNIT_ROUNDOFF * np.abs(estimates).max(axis=1, initial=0)
        margin += 4 * UNIT_ROUNDOFF * largest
        excluded.mask(estimates)
        rows, columns = contenders(estimates, k, margin)
        products = pair_products(asked.queries, rows, head.items, columns).astype(np.float32)
        exact = mixed(products, strengths[rows, columns], peaks[rows], self.mixing)
        popular = np.array([not len(history) for history in asked.histories], dtype=bool)
        is_popular = popular[rows]
        exact[is_popular] = self.paths.model.floor[columns[is_popular]]
        return ranked(rows, columns, exact, len(asked), k)

    def _first(self, asked: Both, k: int, excluded: Excluded) -> Lists | None:
        """One list without the vectors of all; None where there is no such thing, or no longer."""
        vectors = self.vectors
        if not isinstance(vectors, FirstListRanker) or vectors.few is None or len(asked) != 1:
            return None
        [history] = asked.histories
        if not len(history):
            return None
        strengths = self.paths.model.strength_history(history)
        term = LogShares(strengths, history, self.mixing)
        return vectors.first(asked.queries, k, excluded, term)

    def similar(self, item: int, k: int) -> Lists:
        """By the cosine of vectors."""
        return self.vectors.similar(item, k)

    def _shares(self, histories: Histories) -> Iterator[DoubleArray | None]:
        """The logarithms of each user's shares; None for someone without items."""
        for history in histories:
            if len(history):
                strengths = self.paths.model.strength_history(history)
                yield log_share(strengths, history, self.mixing.epsilon)
            else:
                yield None


class LogShares:
    """What the filter adds to the scores of one user, as `cerp.runtime.first_list` asks for it."""

    def __init__(self, strengths: FloatArray, history: Int32Array, mixing: Mixing) -> None:
        self.strengths, self.mixing = strengths, mixing
        self.peak = peak_of(strengths, history)
        self.estimates = estimated(strengths, self.peak, mixing)
        self.error = 4 * UNIT_ROUNDOFF * largest_size(self.estimates)

    def added(self, scores: FloatArray, items: Int64Array) -> FloatArray:
        """Exact scores by vectors and filter, given those by vectors."""
        return mixed(scores, self.strengths[items], self.peak, self.mixing)


def estimated(
    strengths: FloatArray, peak: float, mixing: Mixing, out: DoubleArray | None = None
) -> DoubleArray:
    """``β · log(ε + F / max F)`` by NumPy's logarithm, whose last bits differ between machines."""
    result = shares(strengths, peak, mixing.epsilon, out)
    np.log(result, out=result)
    result *= mixing.beta
    return result


def largest_size(values: DoubleArray) -> float:
    """``max |v|``, without a copy."""
    return float(max(-values.min(initial=0), values.max(initial=0)))


def mixed(
    products: FloatArray, strengths: FloatArray, peak: float | DoubleArray, mixing: Mixing
) -> FloatArray:
    """Exact scores of single pairs, from those by vectors and from F and its maximum."""
    return summed(products, natural_log(shares(strengths, peak, mixing.epsilon)), mixing)


def summed(products: FloatArray, logs: DoubleArray, mixing: Mixing) -> FloatArray:
    """Scores by vectors and, as often as the filter counts, the logarithms of shares."""
    total: DoubleArray = products.astype(np.float64) + mixing.beta * logs
    return total.astype(np.float32)
