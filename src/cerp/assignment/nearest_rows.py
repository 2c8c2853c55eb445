"""Which row of a book is nearest to each point, exactly, and the sums of the points of each row.

Points, rows and weights are multiples of small powers of two (a *grid*). Then distances and
weighted sums are whole numbers of steps that float64 holds without rounding: they do not depend
on the order of addition, so codes are the same with any number of threads and on any device. The
search itself runs in float32; only where two rows are nearer to each other than its error bound
is a point looked at again in float64. What is left of ties goes to the lower row. Needs torch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from cerp.assignment.parts_on_cores import on_all_cores

Found = TypeVar("Found")

GRID_BITS = 18
"""Steps of a vector's grid: 2^-18 of the largest entry, up to a factor of two."""
WEIGHT_BITS = 14
"""Steps of a weight's grid likewise: 14 + 18 bits leave room for half a million points in the
53 of float64 (and two bits for rows that grow larger than the vectors)."""
CHUNK_BYTES = {"cpu": 4 * 2**20, "cuda": 256 * 2**20}
"""Of scores that are computed together: they stay in the cache of a core, and keep a GPU busy."""
STRETCHES = {"cpu": 1 << 11, "cuda": 1 << 16}
"""Points that are widened to float64 together, likewise."""


def grid_step(largest: float, bits: int) -> float:
    """The power of two that cuts the range up to the largest value into at most 2^bits steps."""
    return 2.0 ** (math.frexp(largest)[1] - bits) if largest > 0 else 1.0


def on_grid(values: Tensor, step: float) -> Tensor:
    """Each value at its nearest multiple of the step, in place."""
    return values.div_(step).round_().mul_(step)


def nearest_rows(points: Tensor, book: Tensor) -> Tensor:
    """``argmin_r ‖x - C_r‖²`` for each point x, the lowest r of those that tie.

    Parameters
    ----------
    points
        (n, dim), float32, on a grid.
    book
        (rows, dim), float32, on the same grid.

    """
    return nearest_with_runners_up(points, book)[0]


def nearest_with_runners_up(points: Tensor, book: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nearest row of each point, its score in float32, and the best score of the others.

    A score is ``x·C_r - ‖C_r‖²/2``: the nearest row has the highest. The others' is infinite
    where float32 could not tell the two apart, and the row was found in float64.
    """
    half_square = half_squares(book)
    chosen = torch.empty(len(points), dtype=torch.int64, device=points.device)
    scores_of_best = points.new_empty(len(points))
    scores_of_others = points.new_empty(len(points))

    def search(part: slice) -> None:
        scores = row_scores(points[part], book, half_square)
        place, best, second = two_highest(scores)
        again = (best - second <= doubt(points[part], half_square)).nonzero()[:, 0]
        if len(again):
            exact = points[part][again].double() @ book.double().T - half_square
            place[again] = exact.argmax(dim=1)
            second[again] = torch.inf
        chosen[part], scores_of_best[part], scores_of_others[part] = place, best, second

    in_parts(search, points, len(book))
    return chosen, scores_of_best, scores_of_others


def in_parts(search: Callable[[slice], Found], points: Tensor, columns: int) -> list[Found]:
    """What a search gives for points whose scores for so many rows are computed together."""
    size = max(1, CHUNK_BYTES[points.device.type] // (4 * max(columns, 1)))
    parts = [slice(start, start + size) for start in range(0, len(points), size)]
    return [search(part) for part in parts] if points.is_cuda else on_all_cores(search, parts)


def half_squares(book: Tensor) -> Tensor:
    """``‖C_r‖²/2`` of each row in float64."""
    return book.double().square().sum(dim=1) / 2


def row_scores(points: Tensor, book: Tensor, half_square: Tensor) -> Tensor:
    """``x·C_r - ‖C_r‖²/2`` of each point and row, in float32."""
    return _products(points, book).sub_(half_square.float())


def doubt(points: Tensor, half_square: Tensor) -> Tensor:
    """How near two scores in float32 may be to each other and still stand the other way round.

    ``|error| <= (dim + 2) · 2^-24 · (|x|·|C_r| + |C_r|²/2)`` for each of the two.
    """
    largest = float(half_square.max())
    length: Tensor = torch.linalg.vector_norm(points, dim=1)
    return length.mul_(math.sqrt(2 * largest)).add_(largest).mul_((points.shape[1] + 4) * 2.0**-23)


def two_highest(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The place of each row's highest score, that score, and the next one; scores are used up."""
    if scores.is_cuda:
        best, place = scores.max(dim=1)
        scores.scatter_(1, place[:, None], -torch.inf)
        return place, best, scores.amax(dim=1)
    table = scores.numpy()  # NumPy finds a place several times as fast
    places, rows = table.argmax(axis=1), np.arange(len(table))
    highest = table[rows, places]
    table[rows, places] = -np.inf
    found = places, highest, table.max(axis=1)
    return tuple(map(torch.from_numpy, found))  # type: ignore[return-value]


def stretches(points: Tensor) -> Iterator[slice]:
    """All points, some at a time."""
    size = STRETCHES[points.device.type]
    return (slice(start, start + size) for start in range(0, len(points), size))


def squared_lengths(points: Tensor) -> Tensor:
    """``‖x_k‖²`` in float64."""
    found = torch.empty(len(points), dtype=torch.float64, device=points.device)
    for part in stretches(points):
        found[part] = points[part].double().square_().sum(dim=1)
    return found


def squared_distances(points: Tensor, book: Tensor, codes: Tensor) -> Tensor:
    """``‖x_k - C[c_k]‖²`` in float64."""
    found = torch.empty(len(points), dtype=torch.float64, device=points.device)
    for part in stretches(points):
        found[part] = squared_lengths(points[part] - book[codes[part]])
    return found


def row_sums(points: Tensor, weights: Tensor, codes: Tensor, rows: int) -> Tensor:
    """``Σ_{k: c_k = r} w_k (x_k, 1)`` for each row r, float64: (rows, dim + 1)."""
    sums = torch.zeros((rows, points.shape[1] + 1), dtype=torch.float64, device=points.device)
    for part in stretches(points):
        weighted = points[part].double() * weights[part, None]
        sums[:, :-1].index_add_(0, codes[part], weighted)
    sums[:, -1].index_add_(0, codes, weights)
    return sums


def _products(points: Tensor, book: Tensor) -> Tensor:
    """``points · bookᵀ`` in float32. On CPUs NumPy's: its BLAS does well on every make of them."""
    if points.is_cuda:
        with _full_float32():
            return points @ book.T
    return torch.from_numpy(points.numpy() @ book.numpy().T)


@contextlib.contextmanager
def _full_float32() -> Iterator[None]:
    """Products on GPUs without the shorter TensorFloat, whose error the bound does not cover."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
