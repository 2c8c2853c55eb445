"""Vectors by id from a file for lookups, and the ids nearest to one; NumPy alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerp.artifact import ComposedEmbedding, ShippedModel
from cerp.data.ids import Float32Array, Id, Ids, Int64Array
from cerp.errors import ConfigError, DataError, ScoreError
from cerp.runtime.limits import MAX_MEMORY, Limits

STRETCH = 1 << 14
STRETCH_BYTES = 1 << 22
"""Vectors that are composed together, and their size: memory is that of so many."""


class Neighbour(NamedTuple):
    """An id and how alike its vector is."""

    id: Id
    similarity: float
    """``⟨v, w⟩ / (‖v‖ ‖w‖)``, 0 where one of them is zero."""


class Lookup:
    """The vectors of a file that has no recommender: what `cerp.compress` writes.

    They are composed when they are asked for; held are the tables and codes of the file. What is
    asked for may take ``max_memory`` bytes, and as many steps as `cerp.runtime.limits` allows.
    """

    def __init__(
        self,
        model: ShippedModel,
        *,
        file_bytes: int | None = None,
        max_memory: int | str = MAX_MEMORY,
    ) -> None:
        if not model.is_lookup or not isinstance(model.embedding, ComposedEmbedding):
            raise ConfigError("the file holds a recommender, and no vectors for lookups")
        if model.fields is not None:
            raise ConfigError("the file holds several fields; cerp.load gives a Lookup for each")
        self.model, self.file_bytes = model, file_bytes
        self._embedding = model.embedding
        self._limits = Limits.of(max_memory, file_bytes)
        widest = max(self.dim, model.embedding.dim)
        self._stretch = max(1, min(STRETCH, STRETCH_BYTES // (4 * widest)))

    def __repr__(self) -> str:
        """How many vectors there are, how long, and in how many bytes."""
        size = "" if self.file_bytes is None else f" in {self.file_bytes:,} bytes"
        return f"Lookup: {len(self):,} vectors of {self.dim} numbers{size}"

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def ids(self) -> Ids:
        """The ids there are, in the order of the vectors."""
        return self.model.items

    @property
    def dim(self) -> int:
        """Numbers in a vector."""
        return self.model.dim

    def vectors(self, ids: Iterable[Id] | None = None) -> Float32Array:
        """Vectors of ids, float32, (number of ids, dim); of all, in order, where none are named."""
        codes = None if ids is None else self._codes(ids)
        count = len(self) if codes is None else len(codes)
        self._limits.refuse_vectors(self.model, count)
        if codes is None:
            codes = np.arange(count)
        found = np.empty((len(codes), self.dim), dtype=np.float32)
        for part in self._stretches(count):
            found[part] = self._composed(codes[part])
        return found

    def nearest(self, id: Id, k: int = 10) -> list[Neighbour]:  # noqa: A002  (the word for it)
        """The k other ids whose vectors have the smallest angle with that of an id, nearest first.

        Equal similarities are in the order of ids.
        """
        if k < 1:
            raise ConfigError(f"k must be at least 1, got {k}")
        self._limits.refuse_comparison(self.model)
        code = int(self._codes([id])[0])
        target = self._composed(np.array([code])).astype(np.float64)
        similarity = np.empty(len(self), dtype=np.float32)
        for part in self._stretches(len(self)):
            similarity[part] = _cosines(self._composed(np.arange(part.start, part.stop)), target)
        similarity[code] = -np.inf
        k = min(k, len(self) - 1)
        best = np.lexsort((np.arange(len(self)), -similarity))[:k]
        return [
            Neighbour(self.ids.decode(best[place : place + 1])[0], float(similarity[code]))
            for place, code in enumerate(best)
        ]

    def _stretches(self, count: int) -> Iterator[slice]:
        size = self._stretch
        return (slice(start, min(start + size, count)) for start in range(0, count, size))

    def _composed(self, codes: Int64Array) -> Float32Array:
        composed = self._embedding.vectors(codes, len(self.model.items))
        if self.model.projection is not None:
            composed = self.model.projection(composed)
        if not np.isfinite(composed).all():
            raise ScoreError("a vector is not finite; values of the file are too large to be added")
        return composed

    def _codes(self, ids: Iterable[Id]) -> Int64Array:
        wanted = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
        if any(isinstance(one, bool | float) for one in wanted):
            raise DataError("ids are whole numbers or strings, got a bool or a float")
        if self.ids.are_integers and wanted and all(isinstance(one, int) for one in wanted):
            places = np.searchsorted(self.ids.values, wanted)  # they ascend
            inside = np.minimum(places, len(self) - 1)
            if np.array_equal(self.ids.values[inside], wanted):
                return inside.astype(np.int64)
        return self.ids.encode(wanted).astype(np.int64)


def _cosines(vectors: Float32Array, target: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``⟨v, t⟩ / (‖v‖ ‖t‖)`` for each row, 0 where one is zero; squares need 64 bits."""
    doubles = vectors.astype(np.float64)
    lengths = _lengths(doubles) * _lengths(target)
    products = (doubles @ target.T)[:, 0]
    return np.divide(products, lengths, out=np.zeros(len(vectors)), where=lengths > 0)


def _lengths(vectors: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``‖v‖`` of each row."""
    lengths: npt.NDArray[np.float64] = np.sqrt(np.einsum("nd,nd->n", vectors, vectors))
    return lengths
