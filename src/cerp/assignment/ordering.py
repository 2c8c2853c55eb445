"""Id ordering: where each entity stands in the line that the hash cuts into buckets.

CERP's second hash gives neighbours in this line one shared codebook row, so
the order is part of the model. Raw ids often carry the answer (they are
numbered by first appearance in a log that includes the test period); an order
computed from *training edges alone* is safe, and a good one is a free gift.

Entities are users first, then items: user u is entity u, item i is entity
|U| + i. `positions[entity]` is the place in the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.splitmix import mixed
from cerp.errors import ConfigError, MissingExtra

SPECTRAL_DIMENSIONS = 64
SPECTRAL_ITERATIONS = 8
LEAF_SIZE = 8
POWER_ITERATIONS = 10
STRETCH = 1 << 20
"""Edges that are gone through together: all at once would take many times their own bytes."""


def order(train: Interactions, name: str = "spectral", *, seed: int = 0) -> Int32Array:
    """Positions of all entities by the ordering called ``name``.

    - ``spectral``: neighbours in the line are alike; see `spectral`.
    - ``degree``: most active first.
    - ``shuffled``: a seeded random permutation, the control.
    - ``native``: the raw numbering. It may leak test interactions; for
      reproducing the paper only.
    """
    if name not in ORDERINGS:
        raise ConfigError(f"unknown ordering {name!r}; choose one of {', '.join(ORDERINGS)}")
    sequence = ORDERINGS[name](train, seed)
    positions = np.empty(len(sequence), dtype=np.int32)
    positions[sequence] = np.arange(len(sequence), dtype=np.int32)
    return positions


def native(train: Interactions, seed: int) -> Int64Array:
    """Entities as they are numbered."""
    return np.arange(train.num_users + train.num_items)


def shuffled(train: Interactions, seed: int) -> Int64Array:
    """Entities in a random order, drawn over their canonical order."""
    return canonical(train)[np.random.default_rng(seed).permutation(_count(train))]


def degree(train: Interactions, seed: int) -> Int64Array:
    """Entities from the most to the least active, ties in canonical order."""
    return canonical(train)


def canonical(train: Interactions) -> Int64Array:
    """Entities sorted by what the training graph says of them, whatever their ids.

    By degree, then by a Weisfeiler-Lehman colour: a hash of the entity's side
    and degree, four times refined by the multiset of its neighbours' hashes.
    Entities that still tie look alike within four steps of the graph.
    """
    degrees = entity_degrees(train)
    is_item = np.arange(_count(train)) >= train.num_users
    color = mixed(degrees.astype(np.uint64) * np.uint64(2) + is_item.astype(np.uint64))
    for _ in range(4):
        heard = np.zeros_like(color)
        for start in range(0, len(train), STRETCH):
            user = train.user[start : start + STRETCH].astype(np.int64)
            item = train.item[start : start + STRETCH] + np.int64(train.num_users)
            np.add.at(heard, user, color[item])
            np.add.at(heard, item, color[user])
        color = mixed(color ^ mixed(heard))
    return np.lexsort((color, -degrees))


def entity_degrees(train: Interactions) -> Int64Array:
    """Training interactions of each entity, counted without what `train` would keep for it."""
    degrees = np.zeros(_count(train), dtype=np.int64)
    for start in range(0, len(train), STRETCH):
        np.add.at(degrees, train.user[start : start + STRETCH], 1)
        np.add.at(degrees, train.item[start : start + STRETCH] + np.int64(train.num_users), 1)
    return degrees


def spectral(train: Interactions, seed: int) -> Int64Array:
    """Users and items together, by recursive balanced bisection of a spectral embedding.

    The embedding is that of the normalised training graph: with the SVD
    ``D_u^(-1/2) R D_i^(-1/2) ~ A Σ Bᵀ`` (64 leading triples), the point of user
    u is row u of ``A Σ`` and that of item i row i of ``B Σ``, each scaled to
    length one. A set of points is cut at the median of its first principal
    component, and so are both halves, down to eight points.

    Everything starts from the canonical order, so renumbering the raw ids
    changes nothing; the seed draws the start of the subspace iteration.
    """
    start = canonical(train)
    users, items = start[start < train.num_users], start[start >= train.num_users]
    rank = np.empty(_count(train), dtype=np.int64)
    rank[users], rank[items] = np.arange(len(users)), np.arange(len(items))
    row, column = rank[train.user], rank[train.item + np.int64(train.num_users)]
    line = spectral_line(row, column, (len(users), len(items)), seed=seed)
    return np.concatenate([users, items])[line]


def spectral_line(
    row: Int32Array | Int64Array,
    column: Int32Array | Int64Array,
    shape: tuple[int, int],
    *,
    dimensions: int = SPECTRAL_DIMENSIONS,
    seed: int = 0,
) -> Int64Array:
    """Rows, then columns, of the bipartite graph with these edges, as `spectral` lines them up.

    Without edges they stay as they are.
    """
    try:
        from scipy.sparse import csr_array
    except ImportError:
        raise MissingExtra("The spectral ordering", "scipy", "train") from None

    if not len(row):
        return np.arange(sum(shape))
    row_degree = np.bincount(row, minlength=shape[0])
    column_degree = np.bincount(column, minlength=shape[1])
    weight = 1 / np.sqrt(row_degree[row] * column_degree[column], dtype=np.float32)
    adjacency = csr_array((weight, (row, column)), shape=shape)
    return bisected(spectral_points(adjacency, np.random.default_rng(seed), dimensions=dimensions))


ORDERINGS: dict[str, Callable[[Interactions, int], Int64Array]] = {
    "spectral": spectral,
    "degree": degree,
    "shuffled": shuffled,
    "native": native,
}


def _count(train: Interactions) -> int:
    return train.num_users + train.num_items


def spectral_points(
    adjacency: Any,
    rng: np.random.Generator,
    *,
    dimensions: int = SPECTRAL_DIMENSIONS,
    power: int = 1,
) -> npt.NDArray[np.float32]:
    """Unit points of rows, then of columns, by block subspace iteration for the leading triples.

    Those of rows are ``A Σ``, those of columns ``B Σ^power``, each scaled to length one.
    """
    rows, columns = adjacency.shape
    width = min(dimensions, rows, columns)
    block = min(width + 16, rows, columns)
    transposed = adjacency.T.tocsr()
    right = rng.standard_normal((columns, block), dtype=np.float32)
    for _ in range(SPECTRAL_ITERATIONS):
        right = _orthonormal(transposed @ (adjacency @ right))
    # Rayleigh-Ritz: with A·right = left·Σ, the small Gram matrix holds Σ² and the rotation.
    left = adjacency @ right
    energy, rotation = np.linalg.eigh((left.T @ left).astype(np.float64))
    leading = rotation[:, ::-1][:, :width].astype(np.float32)
    singular = np.sqrt(np.maximum(energy[::-1][:width], 0)).astype(np.float32)
    points = np.concatenate([left @ leading, right @ leading * singular**power])
    length = np.linalg.norm(points, axis=1, keepdims=True)
    unit: npt.NDArray[np.float32] = np.divide(
        points, length, out=np.zeros_like(points), where=length > 0
    )
    return unit


def _orthonormal(block: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """An orthonormal basis of the columns, through the small Gram matrix.

    Much faster than QR for tall blocks; directions that are lost to rounding
    come back as noise, which the next iteration damps.
    """
    length = np.linalg.norm(block, axis=0)
    block = np.divide(block, length, out=np.zeros_like(block), where=length > 0)
    energy, rotation = np.linalg.eigh((block.T @ block).astype(np.float64))
    scale = 1 / np.sqrt(np.maximum(energy, energy[-1] * 1e-7))
    return block @ (rotation * scale).astype(np.float32)  # type: ignore[no-any-return]


def bisected(points: npt.NDArray[np.float32]) -> Int64Array:
    """Indices of the points in the order of the leaves of a balanced bisection.

    Sets of one level differ in size by at most one, so each level is one or
    two batched operations.
    """
    line = np.arange(len(points))
    bounds = np.array([0, len(points)])
    while True:
        sizes = np.diff(bounds)
        for size in np.unique(sizes):
            places = bounds[:-1][sizes == size, None] + np.arange(size)
            members = line[places]
            along = _principal_component(points[members])
            in_order = np.argsort(along, axis=1, kind="stable")
            line[places] = np.take_along_axis(members, in_order, axis=1)
        if sizes.max() <= LEAF_SIZE:
            return line
        bounds = np.sort(np.concatenate([bounds, (bounds[:-1] + bounds[1:]) // 2]))


def _principal_component(points: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Coordinates along the direction of largest variance, for (sets, points, d)."""
    centered = points - points.mean(axis=1, keepdims=True)
    farthest = np.argmax(np.einsum("snd,snd->sn", centered, centered), axis=1)
    direction = np.take_along_axis(centered, farthest[:, None, None], axis=1).transpose(0, 2, 1)
    for _ in range(POWER_ITERATIONS):
        direction = centered.transpose(0, 2, 1) @ (centered @ direction)
        length = np.linalg.norm(direction, axis=1, keepdims=True)
        direction = np.divide(direction, length, out=direction, where=length > 0)
    return (centered @ direction)[:, :, 0]  # type: ignore[no-any-return]
