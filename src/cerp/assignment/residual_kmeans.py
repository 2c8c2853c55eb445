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

from cerp.assignment.code_rule import vector_rank
from cerp.assignment.codes import Codes
from cerp.assignment.graph_vectors import GraphVectors, graph_vectors
from cerp.assignment.nearest_rows import (
    GRID_BITS,
    WEIGHT_BITS,
    grid_step,
    nearest_rows,
    on_grid,
    row_sums,
    squared_distances,
    squared_lengths,
)
from cerp.assignment.seeds import Seeds
from cerp.data.ids import Int64Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError, DataError
from cerp.progress import Bar

DEFAULT_MEMORY = 2**30
ITERATIONS, ROUNDS = 25, 3
DAMPING = 1.0
"""τ of the graph's normalisation for codes, in mean degrees: see `cerp.assignment.code_rule`."""
FITTING_COPIES = 3
"""Times that the vectors are held while books are fitted: their own, what is left over, spare."""
STRETCH = 1 << 15
"""Entities that are given codes together where all of them do not fit into memory."""


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
    memory: int = DEFAULT_MEMORY,
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
        sample that fits, and the codes of the others are chosen for these books, a stretch at a
        time, by the same greedy choice and coordinate descent.
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
    fitted = min(count, max(memory // (FITTING_COPIES * 4 * dim), 1))
    sample = np.arange(count)
    if fitted < count:
        sample = np.sort(np.random.default_rng(seed).choice(count, fitted, replace=False))
    points = torch.empty((fitted, dim), dtype=torch.float32, device=device)
    for start in range(0, fitted, STRETCH):
        points[start : start + STRETCH] = source.rows(sample[start : start + STRETCH])
    step = grid_step(_largest(points), GRID_BITS)
    on_grid(points, step)
    ticks = _Ticks(progress, books * (iterations + rounds) + (count > fitted))
    of_sample = torch.from_numpy(weight[sample]).to(device).double()
    fit = _Fit(points, of_sample, rows, step, Seeds(points, of_sample, step, seed), ticks)
    for _ in range(books):
        fit.add_book(iterations)
    for _ in range(rounds):
        for book in range(books):
            fit.improve(book)
    codes = np.empty((count, books), dtype=np.int32)
    codes[sample] = torch.stack(fit.codes, dim=1).int().cpu().numpy()
    missed, whole = fit.missed(), fit.whole
    waiting = np.ones(count, dtype=bool)
    waiting[sample] = False
    for start in range(0, count if fitted < count else 0, STRETCH):
        entities = start + np.flatnonzero(waiting[start : start + STRETCH])
        points = source.rows(entities).to(device, copy=True)
        _largest(points)
        on_grid(points, step)
        of_points = torch.from_numpy(weight[entities]).to(device).double()
        whole += _energy(points, of_points)
        chosen = _choose(points, fit.books, rounds)
        missed += _energy(points, of_points)
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
    memory: int = DEFAULT_MEMORY,
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


class _Fit:
    """Points, the books they are fitted with so far, and what these leave over of each point."""

    def __init__(
        self,
        points: Tensor,
        weights: Tensor,
        rows: int,
        step: float,
        seeds: Seeds,
        ticks: _Ticks,
    ) -> None:
        self.left_over = points
        self.seeds = seeds
        self.weights = weights
        self.rows = rows
        self.step = step
        self.ticks = ticks
        self.whole = _energy(points, weights)
        self.books: list[Tensor] = []
        self.codes: list[Tensor] = []
        self.history: list[float] = []

    def missed(self) -> float:
        """``Σ_k w_k ‖x_k - Σ_j C_j[c_kj]‖²``"""
        return _energy(self.left_over, self.weights)

    def add_book(self, iterations: int) -> None:
        """One more book: Lloyd's algorithm on what is left over."""
        points = self.left_over
        book = points.new_zeros((self.rows, points.shape[1]))
        seeds = self.seeds.draw(points, self.rows, len(self.books))
        book[: len(seeds)] = seeds
        before = self.missed()
        codes = nearest_rows(points, book)
        sums = None
        for iteration in range(iterations):
            previous, codes = codes, codes if iteration == 0 else nearest_rows(points, book)
            codes = self._filled(points, codes, book)
            if sums is None:
                sums = row_sums(points, self.weights, codes, self.rows)
            else:
                moved = (codes != previous).nonzero()[:, 0]
                if not len(moved):
                    self.ticks.advance(iterations - iteration, self.history[-1])
                    break
                arguments = points[moved], self.weights[moved]
                sums += row_sums(*arguments, codes[moved], self.rows)
                sums -= row_sums(*arguments, previous[moved], self.rows)
            book = self._means(sums, book)
            self._record(before, sums, book)
        self.books.append(book)
        self.codes.append(codes)
        _add(points, book, codes, sign=-1)

    def improve(self, number: int) -> None:
        """One step of coordinate descent: choose the rows of one book again, then refit them."""
        points, book = self.left_over, self.books[number]
        _add(points, book, self.codes[number], sign=1)
        before = self.missed()
        codes = self._filled(points, nearest_rows(points, book), book)
        sums = row_sums(points, self.weights, codes, self.rows)
        book = self._means(sums, book)
        self._record(before, sums, book)
        self.books[number], self.codes[number] = book, codes
        _add(points, book, codes, sign=-1)

    def _means(self, sums: Tensor, book: Tensor) -> Tensor:
        """Rows at the grid's nearest places to the weighted means; unused ones stay.

        The objective is a parabola around the mean in every entry of a row, so no place of the
        grid is better.
        """
        weight = sums[:, -1:]
        means = on_grid(sums[:, :-1] / weight.clamp(min=torch.finfo(weight.dtype).tiny), self.step)
        return torch.where(weight > 0, means.float(), book)

    def _filled(self, points: Tensor, codes: Tensor, book: Tensor) -> Tensor:
        """Codes, with the worst-fitted points moved to rows that have none."""
        members = torch.bincount(codes[self.weights > 0], minlength=self.rows)
        empty = (members == 0).nonzero()[:, 0].tolist()
        if not empty:
            return codes
        badness = squared_distances(points, book, codes) * self.weights
        worst = torch.sort(badness, descending=True, stable=True).indices[: 4 * len(empty)]
        codes, remaining = codes.clone(), members.tolist()
        for point in worst[badness[worst] > 0].tolist():
            row = int(codes[point])
            if remaining[row] > 1 and empty:
                remaining[row] -= 1
                codes[point] = empty.pop(0)
        return codes

    def _record(self, before: float, sums: Tensor, book: Tensor) -> None:
        """The error with these rows: ``Σ w‖x‖² - 2 Σ_r S_r·C_r + Σ_r W_r ‖C_r‖²``."""
        rows = book.double()
        fitted = 2 * (sums[:, :-1] * rows).sum() - (sums[:, -1] * rows.square().sum(dim=1)).sum()
        error = max(before - float(fitted), 0.0) / self.whole if self.whole else 0.0
        self.history.append(error)
        self.ticks.advance(1, error)


class _Ticks:
    """Advances a bar by 1 in so many steps."""

    def __init__(self, bar: Bar | None, steps: float) -> None:
        self.bar, self.steps = bar, steps

    def advance(self, steps: float, error: float) -> None:
        if self.bar is not None:
            self.bar.advance(steps / self.steps, f"error {error:.4f}")


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


def _choose(points: Tensor, books: list[Tensor], rounds: int) -> list[Tensor]:
    """Codes of points for given books, which are taken off the points."""
    codes = []
    for book in books:
        codes.append(nearest_rows(points, book))
        _add(points, book, codes[-1], sign=-1)
    for _ in range(rounds):
        for number, book in enumerate(books):
            _add(points, book, codes[number], sign=1)
            codes[number] = nearest_rows(points, book)
            _add(points, book, codes[number], sign=-1)
    return codes


def _add(points: Tensor, book: Tensor, codes: Tensor, *, sign: int) -> None:
    """``points ± book[codes]`` in place, some at a time."""
    for start in range(0, len(points), STRETCH):
        part = slice(start, start + STRETCH)
        points[part].add_(book[codes[part]], alpha=sign)


def _energy(points: Tensor, weights: Tensor) -> float:
    """``Σ_k w_k ‖x_k‖²``"""
    return float((squared_lengths(points) * weights).sum())
