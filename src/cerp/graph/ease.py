"""Linear item-item models: EASE with all weights, and on a sparse support.

EASE (Steck 2019) predicts an item from all others by ridge regression. With
``G = RᵀR`` and ``P = (G + λI)⁻¹``, the weight of item j for item i is ``B_ji = −P_ji / P_ii``
and the diagonal is zero. On a support ``S_i``, the items that may speak for i, the weights are
those of the regression on them alone, ``(G_SS + λI) b = G_Si``: no inverse of all items is
needed, and each weight makes up for those that are not there.

Weights are matrices of SciPy with a row for each *target* i and a column for each source j.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array
from cerp.errors import ConfigError
from cerp.graph.arithmetic import DoubleArray
from cerp.graph.edges import Edges
from cerp.progress import progress

MOST_DENSE_ITEMS = 20_000
"""Beyond, the inverse takes too much memory."""
GRAM_ITEMS = 8_000
"""Up to so many items, G is one dense matrix; beyond, parts of it are made when needed."""
BLOCK = 512
"""Items whose weights are computed together."""


def ease(edges: Edges, regularization: float) -> npt.NDArray[np.float64]:
    """The weights of EASE, dense, a row for each target.

    Parameters
    ----------
    edges
        The training graph, of at most 20,000 items.
    regularization
        λ, positive.

    """
    if edges.num_items > MOST_DENSE_ITEMS:
        raise ConfigError(
            f"EASE with all weights inverts a matrix of all items, and {edges.num_items:,} are "
            f"more than {MOST_DENSE_ITEMS:,}; use a sparse support"
        )
    inverse = np.linalg.inv(_gram(edges) + _positive(regularization) * np.eye(edges.num_items))
    weights = -inverse / np.diag(inverse)[:, None]
    np.fill_diagonal(weights, 0)
    return weights


def strongest_cooccurrence(
    edges: Edges,
    per_item: int,
    *,
    start: DoubleArray,
    middle: DoubleArray,
    end: DoubleArray,
    importance: DoubleArray | None = None,
) -> Any:
    """``end_i · start_j · Σ_v middle_v`` over common users v: for each target the largest.

    Parameters
    ----------
    edges
        The training graph.
    per_item
        How many sources a target keeps; itself is not one.
    start, middle, end
        Weights of sources, users and targets. All ``d^-1/2`` and a middle of 1 is the cosine;
        the powers of the filter make the filter's weights.
    importance
        What a source's weight is multiplied by when the largest are looked for.

    """
    from scipy.sparse import csr_array, vstack

    taken, taken_by = _matrices(edges)
    taken.data = np.repeat(middle, edges.user_degrees)
    weighing = start if importance is None else start * importance
    kept = []
    for begin in range(0, edges.num_items, BLOCK):
        block = (taken_by[begin : begin + BLOCK] @ taken).tocsr()
        rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        columns = block.indices
        block.data[rows + begin == columns] = 0
        chosen = _largest_of_rows(block.data * weighing[columns], block.indptr, per_item)
        values = block.data[chosen] * start[columns[chosen]] * end[rows[chosen] + begin]
        found = csr_array((values, (rows[chosen], columns[chosen])), shape=block.shape)
        kept.append(found)
    result = vstack(kept, format="csr")
    result.sort_indices()
    return result


def cosine(edges: Edges, per_item: int) -> Any:
    """The largest cosines of each item's column of the interactions with others."""
    root = np.sqrt(np.maximum(edges.item_degrees, 1).astype(np.float64))
    ones = np.ones(edges.num_users)
    return strongest_cooccurrence(edges, per_item, start=1 / root, middle=ones, end=1 / root)


def refitted(edges: Edges, support: Any, regularization: float, *, quiet: bool = True) -> Any:
    """The ridge regression of every target on its support.

    Parameters
    ----------
    edges
        The training graph.
    support
        Which sources speak for which target: the stored entries of a SciPy matrix, targets
        in rows. Its values do not matter.
    regularization
        λ, positive.
    quiet
        No bar.

    """
    support = support.tocsr().copy()
    support.sort_indices()
    penalty = _positive(regularization)
    gram = _gram_of(edges)
    offsets, sources = support.indptr, support.indices
    weights = np.zeros(support.nnz)

    def fit(targets: range) -> int:
        for target in targets:
            places = slice(offsets[target], offsets[target + 1])
            chosen = sources[places]
            if len(chosen):
                inner, shared = gram(chosen, target)
                inner.flat[:: len(chosen) + 1] += penalty
                weights[places] = np.linalg.solve(inner, shared)
        return len(targets)

    blocks = [
        range(begin, min(begin + BLOCK, edges.num_items))
        for begin in range(0, edges.num_items, BLOCK)
    ]
    with (
        progress("item neighbours", edges.num_items, quiet=quiet) as bar,
        ThreadPoolExecutor(os.cpu_count()) as threads,
    ):
        for done in threads.map(fit, blocks):
            bar.advance(done)
    support.data = weights
    return support


def _gram_of(edges: Edges) -> Callable[[Int32Array, int], tuple[DoubleArray, DoubleArray]]:
    """What gives ``G_SS`` and ``G_Si`` of a support and its target."""
    if edges.num_items <= GRAM_ITEMS:
        whole = _gram(edges)
        return lambda chosen, target: (whole[np.ix_(chosen, chosen)], whole[chosen, target])
    _, taken_by = _matrices(edges)

    def parts(chosen: Int32Array, target: int) -> tuple[DoubleArray, DoubleArray]:
        together = taken_by[np.append(chosen, target)]
        both = (together @ together.T).toarray()
        return np.ascontiguousarray(both[:-1, :-1]), both[:-1, -1]

    return parts


def _gram(edges: Edges) -> npt.NDArray[np.float64]:
    taken, taken_by = _matrices(edges)
    gram: npt.NDArray[np.float64] = (taken_by @ taken).toarray()
    return gram


def _matrices(edges: Edges) -> tuple[Any, Any]:
    """Users x items and items x users, ones."""
    from scipy.sparse import csr_array

    shape = (edges.num_users, edges.num_items)
    ones = np.ones(len(edges))
    return (
        csr_array((ones, edges.items, edges.user_offsets), shape=shape),
        csr_array((ones, edges.users, edges.item_offsets), shape=shape[::-1]),
    )


def _largest_of_rows(
    values: DoubleArray, offsets: npt.NDArray[np.integer[Any]], count: int
) -> npt.NDArray[np.intp]:
    """Places of the largest positive values of every row; of equal ones the first."""
    chosen = []
    for begin, end in itertools.pairwise(offsets):
        row = values[begin:end]
        best = np.argsort(-row, kind="stable")[:count] if len(row) > count else np.arange(len(row))
        chosen.append(begin + np.sort(best[row[best] > 0]))
    return np.concatenate(chosen) if chosen else np.empty(0, dtype=np.intp)


def _positive(regularization: float) -> float:
    if not regularization > 0:
        raise ConfigError(f"the regularization of EASE must be positive, got {regularization}")
    return regularization
