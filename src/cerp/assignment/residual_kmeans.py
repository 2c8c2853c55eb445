"""Residual k-means: every vector as the sum of one row from each of m books; needs torch.

    minimise  Σ_k w_k ‖x_k - Σ_{j=1..m} C_j[c_kj]‖²   over books C_1..C_m and codes c

Book by book, k-means of what the books before have left over (Lloyd's algorithm); then coordinate
descent: with all other books fixed, each entity chooses its row of one book again, and the rows
become the weighted means of what they stand for. No step raises the objective.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cerp.assignment.book_fitting import STRETCH, BookFit, Ticks, choose, energy
from cerp.assignment.code_rule import MEMORY, vector_rank
from cerp.assignment.codes import Codes
from cerp.assignment.graph_vectors import GraphVectors, graph_vectors
from cerp.assignment.nearest_rows import (
    GRID_BITS,
    WEIGHT_BITS,
    grid_step,
    on_grid,
)
from cerp.assignment.parts_on_cores import torch_on_one_thread
from cerp.assignment.seeds import Seeds
from cerp.data.ids import Int64Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError, DataError
from cerp.progress import Bar

ITERATIONS, ROUNDS = 25, 3
DAMPING = 1.0
"""τ of the graph's normalisation for codes, in mean degrees: see `cerp.assignment.code_rule`."""
FITTING_COPIES = 3
"""Times that the vectors are held while books are fitted: their own, what is left over, spare."""
SAMPLE_A_ROW = 256
"""Entities in a sample for each row of a book: more of them hardly move the means."""


class VectorSource(Protocol):
    """Vectors that are computed when asked for."""

    @property
    def shape(self) -> tuple[int, int]:
        """(entities, dimensions)"""

    def rows(self, entities: Int64Array) -> Tensor:
        """Vectors of some entities, float32."""


def learn_codes(
    vectors: npt.NDArray[np.floating[Any]] | VectorSource,
    weights: npt.NDArray[np.floating[Any]] | None = None,
    *,
    books: int = 4,
    rows: int = 1024,
    seed: int = 0,
    iterations: int = ITERATIONS,
    rounds: int = ROUNDS,
    device: str = "cpu",
    memory: int = MEMORY,
    progress: Bar | None = None,
) -> Codes:
    """Codes and books that rebuild given vectors: ``x_k ≈ Σ_j C_j[c_kj]``.

    Minimises ``Σ_k w_k ‖x_k - Σ_j C_j[c_kj]‖²`` by weighted residual k-means, then coordinate
    descent over the books. Neither kind of step ever raises it.

    Parameters
    ----------
    vectors
        (N, dim): of a trained model, an outside table, or computed on the way (`graph_vectors`).
    weights
        Of each vector, at least 0; 1 where not given.
    books, rows
        m, and how many rows each book has.
    seed
        Draws the rows to begin with, by the vectors' entries: their order does not matter.
    iterations
        Of Lloyd's algorithm, for each book. Fewer where nothing changes any more.
    rounds
        Of coordinate descent over all books.
    device
        ``cpu`` or ``cuda``.
    memory
        Bytes that vectors may take. Where all N take more, the books are fitted to a random
        sample (256 entities for each row, if so many fit), and the codes of the others are
        chosen for these books, a stretch at a time, by the same greedy choice and coordinate
        descent.
    progress
        Is advanced by 1 in all.

    Returns
    -------
    Codes
        Codes, books and the error. Entities may share all codes (`Codes.shared`).

    Notes
    -----
    Vectors and rows are rounded to 2^-18 of the largest entry and weights to 2^-14 of the
    largest. On this grid sums and distances are exact, so the same vectors give the same codes
    and books with any number of threads, on CPUs and on GPUs; see `nearest_rows`. That holds
    while no row stands for more than half a million entities; beyond, sums are rounded. The
    order of the vectors changes nothing either, but for a sample (see `memory`), which is drawn by
    place, and for the choice among equal vectors when one of them has to fill an empty row.

    """
    source = vectors if not isinstance(vectors, np.ndarray) else _Table(vectors)
    count, dim = source.shape
    if min(books, rows) < 1:
        raise ConfigError(f"codes need at least 1 book of 1 row, got {books} books of {rows}")
    weight = _checked_weights(weights, count)
    fitted = _how_many_fit(count, dim, rows, memory)
    if fitted == count:
        sample = np.arange(count)
    else:
        drawn = np.random.default_rng(seed).choice(count, fitted, replace=False, shuffle=False)
        sample = np.sort(drawn)
    points = torch.empty((fitted, dim), dtype=torch.float32, device=device)
    for start in range(0, fitted, STRETCH):
        points[start : start + STRETCH] = source.rows(sample[start : start + STRETCH])
    with torch_on_one_thread():
        step = grid_step(_largest(points), GRID_BITS)
        on_grid(points, step)
        ticks = Ticks(progress, books * (iterations + rounds) + (count > fitted))
        of_sample = torch.from_numpy(weight[sample]).to(device).double()
        fit = BookFit(points, of_sample, rows, step, Seeds(points, of_sample, step, seed), ticks)
        for _ in range(books):
            fit.add_book(iterations)
        for _ in range(rounds):
            for book in range(books):
                fit.improve(book)
        missed, whole = fit.missed(), fit.whole
    codes = np.empty((count, books), dtype=np.int32)
    codes[sample] = torch.stack(fit.codes, dim=1).int().cpu().numpy()
    waiting = np.ones(count, dtype=bool)
    waiting[sample] = False
    for start in range(0, count if fitted < count else 0, STRETCH):
        entities = start + np.flatnonzero(waiting[start : start + STRETCH])
        points = source.rows(entities).to(device, copy=True)
        of_points = torch.from_numpy(weight[entities]).to(device).double()
        with torch_on_one_thread():
            _largest(points)
            on_grid(points, step)
            whole += energy(points, of_points)
            chosen = choose(points, fit.books, rounds)
            missed += energy(points, of_points)
        codes[entities] = torch.stack(chosen, dim=1).int().cpu().numpy()
        ticks.advance(len(entities) / (count - fitted), missed / whole if whole else 0.0)
    return Codes(
        codes=codes,
        books=torch.stack(fit.books).cpu().numpy(),
        error=missed / whole if whole else 0.0,
        history=tuple(fit.history),
        fitted_to=fitted,
    )


def graph_codes(
    train: Interactions,
    *,
    books: int = 4,
    rows: int = 1024,
    rank: int | None = None,
    damping: float = DAMPING,
    seed: int = 0,
    iterations: int = ITERATIONS,
    rounds: int = ROUNDS,
    device: str = "cpu",
    memory: int = MEMORY,
    progress: Bar | None = None,
) -> Codes:
    """Codes of users and items, learned from the training graph alone.

    The vectors are those of `graph_vectors`, at length 1, users and items in one space; the
    weights are the roots of the degrees, ``w_k = √d_k``; see `learn_codes` for the rest. Vectors
    are gone through in canonical order, so renumbering users and items permutes the codes and
    changes nothing else, as far as that holds for the vectors.

    Parameters
    ----------
    train
        Training interactions, and nothing else.
    books, rows
        m, and how many rows each book has.
    rank
        Dimensions of the vectors, where the graph has and `memory` allows as many; None: by
        `cerp.assignment.code_rule.vector_rank`.
    damping
        τ of `graph_vectors`, in mean degrees.
    seed, iterations, rounds, device, progress
        See `learn_codes`.
    memory
        Bytes for the vectors, once while they are computed and once while codes are learned.

    Returns
    -------
    Codes
        Users first, then items.

    """
    if rank is None:
        rank = vector_rank(train.num_users + train.num_items, len(train))
    vectors = graph_vectors(
        train, rank=rank, damping=damping, seed=seed, device=device, memory=memory
    )
    found = learn_codes(
        _InSequence(vectors),
        np.sqrt(vectors.degrees[vectors.sequence], dtype=np.float32),
        books=books,
        rows=rows,
        seed=seed,
        iterations=iterations,
        rounds=rounds,
        device=device,
        memory=memory,
        progress=progress,
    )
    for code in found.codes.T:  # one book at a time: the codes may be most of the memory
        code[vectors.sequence] = code.copy()
    return found


class _Table:
    """A table of vectors as a source."""

    def __init__(self, table: npt.NDArray[np.floating[Any]]) -> None:
        if table.ndim != 2:
            raise DataError(f"vectors must be a table of (entities, dimensions), got {table.shape}")
        self.table = table

    @property
    def shape(self) -> tuple[int, int]:
        return self.table.shape[0], self.table.shape[1]

    def rows(self, entities: Int64Array) -> Tensor:
        return torch.from_numpy(self.table[entities].astype(np.float32, copy=False))


class _InSequence:
    """Vectors of a graph in canonical order."""

    def __init__(self, vectors: GraphVectors) -> None:
        self.vectors = vectors
        self.shape = vectors.shape

    def rows(self, places: Int64Array) -> Tensor:
        return self.vectors.rows(self.vectors.sequence[places])


def _how_many_fit(count: int, dim: int, rows: int, memory: int) -> int:
    """Entities the books are fitted to: all, or as many as memory holds and the rows need."""
    held = memory // (FITTING_COPIES * 4 * dim)
    return count if count <= held else max(min(held, SAMPLE_A_ROW * rows), 1)


def _checked_weights(
    weights: npt.NDArray[np.floating[Any]] | None, count: int
) -> npt.NDArray[np.float32]:
    """Weights on their grid; 1 where not given, at least a step where not 0."""
    if weights is None:
        return np.ones(count, dtype=np.float32)
    if weights.shape != (count,):
        raise DataError(f"{weights.shape} weights for {count:,} vectors")
    if not (np.isfinite(weights).all() and weights.min(initial=0) >= 0):
        raise DataError("weights must be finite and not negative")
    step = grid_step(float(weights.max(initial=0)), WEIGHT_BITS)
    rounded: npt.NDArray[np.float32] = np.divide(weights, step, dtype=np.float32)
    positive = rounded > 0
    np.round(rounded, out=rounded)
    np.maximum(rounded, positive, out=rounded)
    rounded *= np.float32(step)
    return rounded


def _largest(points: Tensor) -> float:
    """The largest absolute entry, if all are finite."""
    largest = float(points.abs().amax()) if points.numel() else 0.0
    if not math.isfinite(largest):
        raise DataError("the vectors hold values that are not finite; codes need numbers")
    return largest
