"""Users and items as points of one space: a truncated SVD of the normalised training graph.

With the interaction matrix R, degrees D_u and D_i with means d̄, a damping τ, and the leading
singular triples ``(D_u + τ d̄_u)^(-1/2) R (D_i + τ d̄_i)^(-1/2) ≈ U Σ Vᵀ``, the vectors are

    x_u = Σ_{i ∈ N(u)} (d_i + τ d̄_i)^(-1/2) V_i        y_i = d_i (d_i + τ d̄_i)^(-1/2) V_i

or the same scaled to length 1. Without damping ``⟨x_u, y_i⟩`` is the score of the graph's ideal
low-pass filter, and the leading vectors are those of small groups that hardly touch the rest;
with it, those of large ones (regularised spectral clustering: Chaudhuri et al., COLT 2012).

The triples come from block subspace iteration over the smaller side of the graph. No users ×
items matrix is ever built, and one block of (smaller side) × (rank + oversampling) numbers is
all that is held besides the edges; products go through a few of its columns at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cerp.assignment.code_rule import MEMORY, SMALLEST_WIDTH, bytes_of_vectors
from cerp.assignment.codes import Float32Array
from cerp.assignment.edge_products import EdgeProducts
from cerp.assignment.ordering import canonical, entity_degrees
from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError, DataError

DEFAULT_RANK = 256
OVERSAMPLING = 32
"""Columns beyond the rank: the last singular vectors wanted converge with the gap behind them."""
ITERATIONS = 3
"""Rounds of filtering and orthonormalisation."""
LARGEST_RATIO = 1e4
"""Most that a filter may stretch one direction more than another: its square meets rounding."""
LARGEST_DEGREE = 8
"""Of a filter, where all eigenvalues are alike."""
CPU_COLUMN_BLOCK = 16
"""Columns that are multiplied together on CPUs: a narrow block stays in cache."""
STRETCH = 1 << 16
"""Rows of a block that are transformed together."""
NOTHING = 1e-10
"""Squared length, as a share of the largest, below which a direction is rounding, not data."""

Wide = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GraphVectors:
    """Vectors of all entities, users first, computed from a small basis when asked for.

    Held are the edges and ``B = D^(-1/2) S`` of the smaller side, where S is V (if items are
    fewer) or U Σ. An entity of that side has the vector ``d_k B_k``, one of the larger side
    ``(Σ_{n ∈ N(k)} B_n) T``, with T = 1 (if items are fewer) or Σ^(-2).
    """

    num_users: int
    num_items: int
    singular_values: Wide
    """Descending; as many as the vectors have dimensions."""
    degrees: Int32Array
    """Training interactions of each entity."""
    sequence: Int32Array
    """Entities in an order that does not depend on their numbering: `ordering.canonical`."""
    unit: bool
    """Whether each vector is scaled to length 1; zero where an entity has no edges."""
    basis: Tensor
    onward: Tensor
    graph: EdgeProducts

    @property
    def rank(self) -> int:
        """Dimensions of a vector."""
        return len(self.singular_values)

    @property
    def shape(self) -> tuple[int, int]:
        """(entities, dimensions)"""
        return self.num_users + self.num_items, self.rank

    def rows(self, entities: Int32Array | Int64Array) -> Tensor:
        """Vectors of some entities, float32, on the device of the computation."""
        is_short = (entities >= self.num_users) == self.graph.items_are_short
        short, long = np.flatnonzero(is_short), np.flatnonzero(~is_short)
        found = torch.empty(
            (len(entities), self.rank), dtype=torch.float32, device=self.basis.device
        )
        own = self.basis[self._tensor(self.graph.place[entities[short]])]
        degree = self._tensor(self.degrees[entities[short]]).to(own.dtype)
        found[self._tensor(short)] = self._scaled(own * degree[:, None])
        of_neighbours = self.graph.neighbour_sums(self.graph.place[entities[long]], self.basis)
        found[self._tensor(long)] = self._scaled(of_neighbours @ self.onward)
        return found

    def table(self) -> Float32Array:
        """All vectors, (N, rank)."""
        filled = np.empty(self.shape, dtype=np.float32)
        for start in range(0, len(filled), STRETCH):
            stop = min(start + STRETCH, len(filled))
            filled[start:stop] = self.rows(np.arange(start, stop)).cpu().numpy()
        return filled

    def _scaled(self, vectors: Tensor) -> Tensor:
        if self.unit:
            length = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
            vectors = torch.where(length > 0, vectors / length, 0.0)
        return vectors.float()

    def _tensor(self, values: npt.NDArray[np.integer[Any]]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64, copy=False)).to(self.basis.device)


def graph_vectors(
    train: Interactions,
    *,
    rank: int = DEFAULT_RANK,
    damping: float = 0.0,
    seed: int = 0,
    unit: bool = True,
    iterations: int = ITERATIONS,
    device: str = "cpu",
    memory: int = MEMORY,
) -> GraphVectors:
    """Vectors of users and items from the leading singular triples of the training graph.

    Parameters
    ----------
    train
        Training interactions, and nothing else.
    rank
        Singular triples. Fewer where the graph has no more, or `memory` holds no more.
    damping
        τ, in mean degrees.
    seed
        Draws the start of the iteration.
    unit
        Scale every vector to length 1.
    iterations
        Rounds of filtering with a polynomial of ``Âᵀ Â`` and orthonormalisation.
    device
        ``cpu`` or ``cuda``.
    memory
        Bytes that blocks of numbers may take, the edges not counted. Beyond them the
        computation is in float32 instead of float64, and then the rank is lowered.

    Returns
    -------
    GraphVectors
        Users first, then items; zero for those without training interactions.

    Notes
    -----
    *Numbering.* Everything is computed in the order of `ordering.canonical`. Renumbering users
    and items permutes the result and changes nothing else, as long as that order tells entities
    apart. Those it cannot tell apart have the same vector if they are twins (the same
    neighbours). Others, as in two equal components, may swap their places in the random start:
    what has converged stays the same, the last dimensions may differ.

    *Devices.* Any basis of the leading subspace would do as well. This one is turned as near to
    the random start as it goes: it depends on the subspace alone, not on the signs and rotations
    that a library happens to give. In float64, CPUs and GPUs and any number of threads
    agree to about 1e-10 where there is a gap behind the last singular value.

    """
    if rank < 1:
        raise ConfigError(f"the rank must be at least 1, got {rank}")
    if len(train) == 0:
        raise DataError("no training interactions: there is no graph to take vectors from")
    sequence = canonical(train).astype(np.int32)
    graph = EdgeProducts.of(train, sequence, device, damping)
    degrees = entity_degrees(train).astype(np.int32)
    possible = min(int((side > 0).sum()) for side in np.split(degrees, [train.num_users]))
    wanted = min(rank + OVERSAMPLING, possible)
    dtype, width = _affordable(graph.num_short, wanted, memory)
    rank = min(rank, width if width == possible else width * rank // (rank + OVERSAMPLING))

    block = _start(graph.num_short, width, seed, dtype, device)
    columns = width if device == "cuda" else CPU_COLUMN_BLOCK
    columns = max(1, min(columns, memory // 4 // (graph.num_long * dtype.itemsize)))
    block = _leading_subspace(graph, block, columns, iterations)
    energy, turn = _singular_turn(graph, block, columns)
    rank = min(rank, int((energy > NOTHING).sum()))
    singular, turn = np.sqrt(energy[:rank]), turn[:, :rank]
    nearest = _nearest_rotation(turn.T @ _products_with_start(block, width, rank, seed))
    if graph.items_are_short:  # S = V, turned
        basis, onward = _transformed(block, turn @ nearest), np.eye(rank)
    else:  # S = U Σ, turned
        basis = _transformed(block, turn @ (singular[:, None] * nearest))
        onward = nearest.T @ (nearest / singular[:, None] ** 2)
    basis *= graph.short_scale(dtype)
    return GraphVectors(
        num_users=train.num_users,
        num_items=train.num_items,
        singular_values=singular,
        degrees=degrees,
        sequence=sequence,
        unit=unit,
        basis=basis,
        onward=torch.from_numpy(onward).to(basis),
        graph=graph.one_way(),
    )


def _affordable(num_short: int, wanted: int, memory: int) -> tuple[torch.dtype, int]:
    """Precision and columns of the block, so that it and its copies fit into memory."""
    if 3 * num_short * wanted * 8 <= memory:
        return torch.float64, wanted
    width = min(wanted, memory // (2 * num_short * 4))  # in place: little more than the block
    if width < min(SMALLEST_WIDTH, wanted):
        raise ConfigError(
            f"vectors of {num_short:,} entities do not fit into {memory:,} bytes: "
            f"memory={bytes_of_vectors(num_short)} would do. "
            'Give more memory, or choose assignment="hash", which needs no vectors'
        )
    return torch.float32, width


def _start(rows: int, columns: int, seed: int, dtype: torch.dtype, device: str) -> Tensor:
    """Independent normal numbers."""
    block = torch.empty((rows, columns), dtype=dtype, device=device)
    for part, drawn in zip(
        torch.split(block, STRETCH), _stretches(rows, columns, seed), strict=True
    ):
        part.copy_(drawn)
    return block


def _stretches(rows: int, columns: int, seed: int) -> Iterator[Tensor]:
    """The numbers of `_start`, a stretch of rows at a time."""
    rng = np.random.default_rng(seed)
    for start in range(0, rows, STRETCH):
        shape = (min(STRETCH, rows - start), columns)
        yield torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))


def _products_with_start(block: Tensor, columns: int, used: int, seed: int) -> Wide:
    """``blockᵀ start`` of the first columns of `_start`, which are drawn again."""
    total = np.zeros((block.shape[1], used))
    drawn_again = _stretches(len(block), columns, seed)
    for part, drawn in zip(torch.split(block, STRETCH), drawn_again, strict=True):
        total += _products(part, drawn[:, :used].to(block.device))
    return total


def _leading_subspace(graph: EdgeProducts, block: Tensor, columns: int, iterations: int) -> Tensor:
    """An orthonormal block turned towards the leading right singular vectors.

    After a product with ``G = Âᵀ Â`` the smallest direction tells a, an eigenvalue of G that may
    be damped with all below it. The Chebyshev polynomial ``T_n(2G/a - 1)`` stays within ±1 there
    and grows fastest beyond: a few products with it do what many with G would.
    """
    block, _ = _orthonormal(block)
    block, smallest = _orthonormal(_applied(graph, block, columns))
    for _ in range(iterations):
        growth = np.arccosh(max(2 / smallest - 1, 1.0))  # T_n(2/a - 1) = cosh(n · growth)
        degree = int(min(np.arccosh(LARGEST_RATIO) / max(growth, 1.0), LARGEST_DEGREE))
        if degree > 1:
            block, _ = _orthonormal(_applied(graph, block, columns, degree, smallest))
        block, smallest = _orthonormal(_applied(graph, block, columns))
    return _orthonormal(block)[0]


def _applied(
    graph: EdgeProducts, block: Tensor, columns: int, degree: int = 1, damped: float = 2.0
) -> Tensor:
    """``G block``, or ``T_n(2G/a - 1) block``; in place, some columns at a time."""
    for start in range(0, block.shape[1], columns):
        before = block[:, start : start + columns].contiguous()
        now = graph.gram(before)
        if degree > 1:
            now = now.mul_(2 / damped).sub_(before)
        for _ in range(degree - 1):
            before, now = now, (graph.gram(now).mul_(2 / damped) - now).mul_(2).sub_(before)
        block[:, start : start + columns] = now
    return block


def _orthonormal(block: Tensor) -> tuple[Tensor, float]:
    """An orthonormal basis of the columns, and the length of the shortest direction in them.

    Through the small Gram matrix: far faster than QR for tall blocks. Directions that are
    rounding alone are left out, so a graph of low rank leaves fewer columns. What the squared
    condition costs is made up for when this is done again.
    """
    energy, turn = _eigen(_products(block, block))
    kept = energy > NOTHING * energy[0]
    block = _transformed(block, turn[:, kept] / np.sqrt(energy[kept]))
    return block, float(np.sqrt(energy[kept][-1]))


def _eigen(matrix: Wide) -> tuple[Wide, Wide]:
    """Eigenvalues of a symmetric matrix, descending, and the eigenvectors."""
    values, vectors = torch.linalg.eigh(torch.from_numpy((matrix + matrix.T) / 2))
    return values.flip(0).numpy(), vectors.flip(1).numpy()


def _singular_turn(graph: EdgeProducts, block: Tensor, columns: int) -> tuple[Wide, Wide]:
    """Σ², descending, and the turn from the block to the singular vectors (Rayleigh-Ritz).

    Both are those of the small matrix ``Qᵀ Âᵀ Â Q`` of the orthonormal block Q.
    """
    small = np.empty((block.shape[1],) * 2)
    for start in range(0, block.shape[1], columns):
        part = graph.gram(block[:, start : start + columns].contiguous())
        small[:, start : start + columns] = _products(block, part)
    return _eigen(small)


def _nearest_rotation(matrix: Wide) -> Wide:
    """The orthogonal O that makes ``tr(Oᵀ M)`` largest."""
    left, _, right = np.linalg.svd(matrix)
    return left @ right  # type: ignore[no-any-return]


def _products(first: Tensor, second: Tensor) -> Wide:
    """``firstᵀ second`` in float64, a stretch of rows at a time."""
    total = np.zeros((first.shape[1], second.shape[1]))
    for start in range(0, len(first), STRETCH):
        rows = slice(start, start + STRETCH)
        total += (first[rows].double().T @ second[rows].double()).cpu().numpy()
    return total


def _transformed(block: Tensor, small: Wide) -> Tensor:
    """``block · small`` with no more columns than the block, written over it."""
    factor = torch.from_numpy(small).to(block.device)
    rows, width = len(block), factor.shape[1]
    flat = block.view(-1)
    for start in range(0, rows, STRETCH):  # the place written to is never ahead of that read
        part = (block[start : start + STRETCH].double() @ factor).to(block.dtype)
        flat[start * width : start * width + part.numel()] = part.view(-1)
    return flat[: rows * width].view(rows, width)
