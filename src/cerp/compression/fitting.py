"""A plan at work: basis and books fitted to a sample, then every vector written in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from cerp.artifact import ComposedEmbedding, Index, Projection, Table
from cerp.artifact.quantize import decode_values, encode_values
from cerp.artifact.tensors import TensorReader
from cerp.assignment.book_fitting import choose
from cerp.assignment.residual_kmeans import learn_codes
from cerp.assignment.rotation import group_widths, grouped_basis, principal_components
from cerp.compression.plans import Plan
from cerp.compression.tables import VectorTable
from cerp.data.ids import Float32Array, Int32Array
from cerp.progress import Bar

ROUNDS = 3
"""Of coordinate descent, when a vector chooses its rows."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Frame:
    """Mean, scale and principal components of a sample: what all plans begin with."""

    mean: Float32Array
    scale: float
    components: Float32Array
    points: Float32Array
    """The sample, centred, scaled and in principal components."""
    weights: Float32Array

    @classmethod
    def of(cls, sample: Float32Array, weights: Float32Array) -> Frame:
        """The largest number is 1 after scaling: halves and grids have room for all of them."""
        mean = np.average(sample, axis=0, weights=weights).astype(np.float32)
        centred: Float32Array = sample - mean
        scale = float(np.abs(centred).max()) or 1.0
        centred /= np.float32(scale)
        components = principal_components(centred, weights)
        points: Float32Array = centred @ components
        return cls(mean, scale, components, points, weights)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A plan with the numbers that its file shares among all vectors."""

    plan: Plan
    projection: Projection | None
    """From stored columns to vectors; None: vectors are stored as they are."""
    books: tuple[tuple[Float32Array, ...], ...] = ()
    """Of each group, its books, as they are read back: (rows, columns of the group)."""
    masks: tuple[tuple[Mask, ...], ...] = ()
    """Which of their values are stored."""

    def columns(self, vectors: Float32Array) -> Float32Array:
        """What is written of vectors."""
        if self.projection is None:
            return vectors
        centred: Float32Array = vectors - self.projection.mean
        centred /= np.float32(self.projection.scale)
        return centred @ self.projection.matrix.T

    def codes(self, vectors: Float32Array) -> Int32Array:
        """The row of each vector in each book, group after group."""
        ends = np.cumsum(group_widths(self.plan.dim, self.plan.groups))
        found = []
        for part, books in zip(np.split(self.columns(vectors), ends[:-1], axis=1), self.books):  # noqa: B905
            points = torch.from_numpy(np.array(part, order="C"))
            found += choose(points, [torch.from_numpy(book) for book in books], _rounds(books))
        return torch.stack(found, dim=1).int().numpy()

    def read_back(self, vectors: Float32Array) -> Float32Array:
        """Vectors as the file would give them."""
        if self.plan.is_coded:
            composed = self._embedding(self.codes(vectors)).vectors(
                np.arange(len(vectors)), len(vectors)
            )
        else:
            composed = rounded(self.columns(vectors), None, self.plan.values)
        return composed if self.projection is None else self.projection(composed)

    def write(self, table: VectorTable, bar: Bar) -> ComposedEmbedding:
        """Every vector of a table, some at a time."""
        count = table.shape[0]
        width = len(self.books) * self.plan.books if self.plan.is_coded else self.plan.dim
        codes = np.empty((count, width if self.plan.is_coded else 0), dtype=np.int32)
        values = np.empty((count, 0 if self.plan.is_coded else width), dtype=np.float32)
        for part in table.stretches():
            rows = table.rows(part)
            if self.plan.is_coded:
                codes[part] = self.codes(rows)
            else:
                values[part] = self.columns(rows)
            bar.advance((part.stop - part.start) / count)
        if self.plan.is_coded:
            return self._embedding(codes)
        return ComposedEmbedding((Table(Index("identity"), values),))

    def _embedding(self, codes: Int32Array) -> ComposedEmbedding:
        """One book in a group is a concatenation; more are sums, zero in other groups' columns."""
        plan, columns = self.plan, iter(codes.T)
        tables = []
        start = 0
        is_sum = plan.groups == 1 or plan.books > 1
        for books, masks in zip(self.books, self.masks, strict=True):
            width = books[0].shape[1]
            before, after = (start, plan.dim - start - width) if is_sum else (0, 0)
            for book, mask in zip(books, masks, strict=True):
                around = ((0, 0), (before, after))
                weight: Float32Array = np.pad(book, around)
                stored: Mask = np.pad(mask, around)
                index = Index("coded", len(book), codes=np.ascontiguousarray(next(columns)))
                tables.append(Table(index, weight, None if stored.all() else stored))
            start += width
        return ComposedEmbedding(tuple(tables), "sum" if is_sum else "concat")


def fit(plan: Plan, frame: Frame, seed: int, iterations: int, bar: Bar) -> Fitted:
    """The basis and the books of a plan, from a sample."""
    if plan.method in ("int8", "int4"):
        bar.advance(1)
        return Fitted(plan, None)
    basis, points = frame.components, frame.points
    if plan.groups > 1:
        turn = grouped_basis(points, plan.groups, seed)
        basis, points = basis @ turn, points @ turn
    matrix = basis[:, : plan.dim].T.astype(np.float16).astype(np.float32)
    projection = Projection(matrix, frame.mean, frame.scale)
    if not plan.is_coded:
        bar.advance(1)
        return Fitted(plan, projection)
    ends = np.cumsum(group_widths(plan.dim, plan.groups))
    books, masks = [], []
    parts = np.split(points[:, : plan.dim], ends[:-1], axis=1)
    for part, bits in zip(parts, plan.bits, strict=True):
        learned = learn_codes(
            np.ascontiguousarray(part),
            frame.weights,
            books=plan.books,
            rows=1 << bits,
            seed=seed,
            iterations=iterations,
            memory=1 << 40,
        )
        kept = _kept(learned.books, learned.codes, plan.kept)
        books.append(
            tuple(
                rounded(book * mask, mask, plan.values)
                for book, mask in zip(learned.books, kept, strict=True)
            )
        )
        masks.append(tuple(kept))
        bar.advance(1 / plan.groups)
    return Fitted(plan, projection, tuple(books), tuple(masks))


def rounded(weight: Float32Array, mask: Mask | None, values: str) -> Float32Array:
    """Values as a file gives them back."""
    stored = np.ones(weight.shape, dtype=bool) if mask is None else mask
    counts = stored.sum(axis=1, dtype=np.int64)
    tensors = encode_values(weight[stored], counts, values)  # type: ignore[arg-type]
    read = np.zeros_like(weight)
    read[stored] = decode_values(TensorReader(tensors), counts, values)  # type: ignore[arg-type]
    return read


def _kept(books: Float32Array, codes: Int32Array, share: float) -> list[Mask]:
    """The values of all books whose loss would cost most: those of largest ``n_r · C_ri²``.

    n_r is how many vectors of the sample have the row.
    """
    if share == 1:
        return [np.ones(book.shape, dtype=bool) for book in books]
    rows = books.shape[1]
    used = np.stack([np.bincount(column, minlength=rows) for column in codes.T])
    cost = used[:, :, None] * np.square(books)
    count = int(cost.size * share)
    order = np.argsort(-cost, axis=None, kind="stable")[:count]
    mask = np.zeros(cost.size, dtype=bool)
    mask[order] = True
    return list(mask.reshape(cost.shape))


def _rounds(books: tuple[Float32Array, ...]) -> int:
    """A single book leaves nothing to choose again."""
    return ROUNDS if len(books) > 1 else 0
