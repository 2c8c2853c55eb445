"""Codes and positions for one table of ids, such as the items of a sequence model; needs torch.

`cerp.assignment.ordering` and `residual_kmeans.graph_codes` look at users and items together. A
model of one's own often has a single table, with a place for padding. What is known of its ids
can be one of four things:

- ``pairs``: (other, id) rows, such as user and item, or query and document;
- ``sequences``: lists of ids that occur together, such as sessions or sentences;
- ``cooccurrence``: an (N, N) matrix of how often two ids occur together, dense or sparse;
- ``table``: one vector for each id, of a trained model or an encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.assignment.code_rule import vector_rank
from cerp.assignment.codes import Codes, Float32Array
from cerp.assignment.ordering import SPECTRAL_DIMENSIONS, bisected, order, spectral_points
from cerp.assignment.residual_kmeans import learn_codes
from cerp.data.ids import Ids, Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError, DataError
from cerp.progress import Bar

Pairs = npt.NDArray[np.integer[Any]] | Sequence[Sequence[int]]


def table_codes(
    num_embeddings: int,
    *,
    pairs: Pairs | None = None,
    sequences: Iterable[Sequence[int]] | None = None,
    cooccurrence: Any = None,
    table: npt.NDArray[np.floating[Any]] | None = None,
    books: int = 4,
    rows: int = 256,
    padding_idx: int | None = None,
    seed: int = 0,
    progress: Bar | None = None,
) -> Codes:
    """Rows of m books for the ids of one table, ``c = argmin Σ_k w_k ‖x_k - Σ_j C_j[c_kj]‖²``.

    x_k is the row of the table, or ``V_k Λ`` at length 1, with V Λ Vᵀ the leading part of
    normalised co-occurrence: Λ = Σ² for the singular values of the graph of pairs or sequences.
    Normalised means times ``(D + d̄)^(-1/2)``, with degrees D and their mean d̄, on each side. w_k
    is 1 for a table, else the root of how often the id occurs. The padding has the first row of
    each book, which it does not move.

    Parameters
    ----------
    num_embeddings
        N, the padding included.
    pairs, sequences, cooccurrence, table
        What is known of the ids: one of them.
    books, rows
        m, and how many rows each book has.
    padding_idx
        The id that stands for no entity.
    seed, progress
        See `cerp.nn.learn_codes`.

    """
    padding = _checked_padding(padding_idx, num_embeddings)
    kept = _without(padding, num_embeddings)
    graph = _graph(num_embeddings, padding, pairs, sequences, cooccurrence, table)
    weights: npt.NDArray[np.float32] | None = None
    if graph is not None:
        rank = vector_rank(graph.num_users + num_embeddings, len(graph))
        vectors = _points(_matrix(graph), seed, rank, power=2)[kept]
        weights = np.sqrt(graph.item_counts[kept], dtype=np.float32)
    elif table is not None:
        vectors = _checked_table(table, num_embeddings)[kept]
    else:
        matrix = _square(cooccurrence, num_embeddings)
        vectors = _points(matrix, seed, vector_rank(num_embeddings, matrix.nnz))[kept]
        weights = np.sqrt(np.asarray(matrix.sum(axis=0)).ravel()[kept], dtype=np.float32)
    found = learn_codes(vectors, weights, books=books, rows=rows, seed=seed, progress=progress)
    codes = np.zeros((num_embeddings, books), dtype=np.int32)
    codes[kept] = found.codes
    return Codes(codes, found.books, found.error, found.history, found.fitted_to)


def table_positions(
    num_embeddings: int,
    *,
    pairs: Pairs | None = None,
    sequences: Iterable[Sequence[int]] | None = None,
    cooccurrence: Any = None,
    table: npt.NDArray[np.floating[Any]] | None = None,
    padding_idx: int | None = None,
    seed: int = 0,
) -> Int32Array:
    """Places of the ids of one table in a line whose neighbours are alike; the padding comes last.

    By recursive balanced bisection of points: those of `table_codes`, in the spectral embedding of
    `cerp.assignment.ordering.order` where pairs or sequences are given.
    """
    padding = _checked_padding(padding_idx, num_embeddings)
    kept = _without(padding, num_embeddings)
    graph = _graph(num_embeddings, padding, pairs, sequences, cooccurrence, table)
    if graph is not None:
        places = order(graph, "spectral", seed=seed)[graph.num_users :][kept]
        line = kept[np.argsort(places)]
    elif table is not None:
        vectors = _checked_table(table, num_embeddings)[kept]
        line = kept[bisected(_unit(vectors))]
    else:
        matrix = _square(cooccurrence, num_embeddings)
        line = kept[bisected(_points(matrix, seed, SPECTRAL_DIMENSIONS)[kept])]
    positions = np.full(num_embeddings, num_embeddings - 1, dtype=np.int32)
    positions[line] = np.arange(len(line), dtype=np.int32)
    return positions


def _graph(
    num_embeddings: int,
    padding: int | None,
    pairs: Pairs | None,
    sequences: Iterable[Sequence[int]] | None,
    cooccurrence: Any,
    table: Any,
) -> Interactions | None:
    """Pairs or sequences as a graph whose items are the ids; None where something else is given."""
    given = [part is not None for part in (pairs, sequences, cooccurrence, table)]
    if sum(given) != 1:
        raise ConfigError(
            "say by one thing which ids are alike: pairs, sequences, cooccurrence or table; got "
            f"{sum(given)} of them"
        )
    if sequences is not None:
        pairs = _pairs_of(sequences)
    if pairs is None:
        return None
    rows = np.asarray(pairs)
    if rows.ndim != 2 or rows.shape[1] != 2 or rows.dtype.kind not in "iu":
        raise DataError(
            f"pairs must be whole numbers in two columns, (other, id), got {rows.dtype} of the "
            f"shape {rows.shape}"
        )
    other, ids = np.unique(rows[:, 0], return_inverse=True)[1], rows[:, 1]
    if not len(ids) or ids.min() < 0 or ids.max() >= num_embeddings:
        raise DataError(
            f"pairs and sequences must name ids 0..{num_embeddings - 1}, and some of them; got "
            + (f"{ids.min()} to {ids.max()}" if len(ids) else "none")
        )
    if padding is not None:
        other, ids = other[ids != padding], ids[ids != padding]
    users = Ids.range(int(other.max(initial=-1)) + 1)
    return Interactions.from_codes(other, ids, users=users, items=Ids.range(num_embeddings))


def _pairs_of(sequences: Iterable[Sequence[int]]) -> Int64Array:
    parts = [np.asarray(sequence).reshape(-1) for sequence in sequences]
    counts = [len(part) for part in parts]
    if not sum(counts):
        return np.empty((0, 2), dtype=np.int64)
    ids = np.concatenate([part for part in parts if len(part)])
    if ids.dtype.kind not in "iu":
        raise DataError(f"sequences must hold ids, which are whole numbers, got {ids.dtype}")
    return np.stack([np.repeat(np.arange(len(parts)), counts), ids.astype(np.int64)], axis=1)


def _square(cooccurrence: Any, num_embeddings: int) -> Any:
    """The matrix as a symmetric sparse one of finite counts, none below zero."""
    from scipy.sparse import csr_array

    matrix = csr_array(cooccurrence, dtype=np.float32)
    if matrix.shape != (num_embeddings, num_embeddings):
        raise DataError(
            f"co-occurrence must have the shape ({num_embeddings}, {num_embeddings}), a row and a "
            f"column for each id, got {matrix.shape}"
        )
    if not np.isfinite(matrix.data).all() or matrix.data.min(initial=0) < 0:
        raise DataError("co-occurrence must be counts or weights, finite and not below zero")
    return ((matrix + matrix.T) / 2).tocsr()


def _matrix(graph: Interactions) -> Any:
    from scipy.sparse import csr_array

    ones = np.ones(len(graph), dtype=np.float32)
    shape = (graph.num_users, graph.num_items)
    return csr_array((ones, (graph.user, graph.item)), shape=shape)


def _points(matrix: Any, seed: int, dimensions: int, *, power: int = 1) -> Float32Array:
    """Unit points of the columns of a normalised matrix."""
    from scipy.sparse import diags_array

    left, right = (_scales(np.asarray(matrix.sum(axis=axis)).ravel()) for axis in (1, 0))
    normal = (diags_array(left) @ matrix @ diags_array(right)).tocsr()
    rng = np.random.default_rng(seed)
    return spectral_points(normal, rng, dimensions=dimensions, power=power)[len(left) :]


def _scales(degree: Float32Array) -> Float32Array:
    """``(D + d̄)^(-1/2)``"""
    damped = degree + max(float(degree.mean()), 1e-12)
    return (1 / np.sqrt(damped)).astype(np.float32)  # type: ignore[no-any-return]


def _unit(vectors: Float32Array) -> Float32Array:
    """Each at length 1; zero stays zero."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)  # type: ignore[no-any-return]


def _checked_table(table: npt.NDArray[np.floating[Any]], num_embeddings: int) -> Float32Array:
    found = np.asarray(table)
    if found.ndim != 2 or len(found) != num_embeddings or not found.shape[1]:
        raise DataError(
            f"the table must have the shape ({num_embeddings}, dimensions), got {found.shape}"
        )
    if not np.isfinite(found).all():
        raise DataError("the table holds values that are not finite")
    return found.astype(np.float32)


def _checked_padding(padding_idx: int | None, num_embeddings: int) -> int | None:
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise ConfigError(f"padding_idx {padding_idx} is none of the {num_embeddings:,} ids")
    return padding_idx % num_embeddings


def _without(padding: int | None, num_embeddings: int) -> Int64Array:
    ids = np.arange(num_embeddings)
    return ids if padding is None else np.delete(ids, padding)
