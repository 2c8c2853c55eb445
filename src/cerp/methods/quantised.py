"""PQ, OPQ and residual quantisation: the full table is trained, and then written in codes."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise

import numpy as np
import torch

from cerp.assignment.residual_kmeans import learn_codes
from cerp.assignment.rotation import group_widths, grouped_basis, principal_components
from cerp.data.ids import Float32Array, Int32Array
from cerp.errors import BudgetError, ConfigError
from cerp.methods.base import Context, Method
from cerp.methods.full import Full
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.training.search_result import Found

BOOKS, ROWS = 8, 256
"""A code of eight bytes for each entity, unless told otherwise."""


class Quantised(Method):
    """A vector of the trained table as one row from each of m books.

    ``books`` is m; each has at most ``rows`` rows, and fewer where the budget has no room for so
    many: it limits the values of the books. The codes are free in that count, as learned codes are
    everywhere, and take ``m ⌈log₂ rows⌉`` bits for each entity in the file. Nothing is trained
    after the table; settings of training are the table's.
    """

    def __init__(self, books: int = BOOKS, rows: int = ROWS) -> None:
        if books < 1 or rows < 2:
            raise ConfigError(
                f"quantisation needs books >= 1 and rows >= 2, got {books} and {rows}"
            )
        self._books, self._rows = books, rows

    @abstractmethod
    def values_a_row(self, dim: int) -> int:
        """How many values a row more in every book takes."""

    @abstractmethod
    def columns(self, dim: int) -> list[slice]:
        """Which columns of a vector each book has rows for."""

    @abstractmethod
    def fitted(
        self, vectors: Float32Array, rows: int, context: Context
    ) -> tuple[Int32Array, list[Float32Array]]:
        """Codes, (N, m), and the books, each over its own columns."""

    def source(self, context: Context) -> Embedding:
        """The full table."""
        return Full().embedding(context, max(context.limits), Found({}, {}))

    def embedding(self, context: Context, limit: int, found: Found) -> Embedding:
        """Books of as many rows as fit, and codes that mean nothing yet."""
        count, dim = context.splits.num_entities, context.config.dim
        if self._books > dim:
            raise ConfigError(f"vectors of {dim} numbers cannot be cut for {self._books} books")
        rows = min(limit // self.values_a_row(dim), self._rows, count)
        if rows < 2:
            raise BudgetError(
                f"a budget of {limit:,} values is too small for {context.config.method}: two rows, "
                f"the fewest that codes can choose among, take {2 * self.values_a_row(dim):,}"
            )
        codes = np.random.default_rng(0).integers(0, rows, (count, self._books), dtype=np.int32)
        made = CompositionalEmbedding(
            count, dim, buckets=rows, codes=codes, generator=context.generator()
        )
        mask = torch.zeros((self._books, rows, dim), dtype=torch.bool)
        for book, own in zip(mask, self.columns(dim), strict=True):
            book[:, own] = True
        if not mask.all():
            made.restrict(mask.flatten(0, 1))
        return made

    @torch.no_grad()
    def compress(self, context: Context, source: Embedding, kept: Embedding) -> None:
        """The books and codes of the trained table."""
        assert isinstance(kept, CompositionalEmbedding)
        vectors = source.table().detach().cpu().float().numpy()
        codes, books = self.fitted(vectors, kept.book_rows[0], context)
        weight = np.zeros((self._books, kept.book_rows[0], vectors.shape[1]), dtype=np.float32)
        for own, book, columns in zip(weight, books, self.columns(vectors.shape[1]), strict=True):
            own[:, columns] = book
        kept.weight.copy_(torch.from_numpy(weight).flatten(0, 1))
        kept.recode(codes)


class Pq(Quantised):
    """``e_k = (C₁[c_k1], ..., C_m[c_km])``, product quantisation (Jégou et al., PAMI 2011).

    The d columns are cut into m groups; k-means of each group apart makes its book. The books
    have ``rows · d`` values, whatever m is.
    """

    def values_a_row(self, dim: int) -> int:
        """All columns once."""
        return dim

    def columns(self, dim: int) -> list[slice]:
        """A group for each book."""
        ends = np.cumsum([0, *group_widths(dim, self._books)]).tolist()
        return [slice(*pair) for pair in pairwise(ends)]

    def fitted(
        self, vectors: Float32Array, rows: int, context: Context
    ) -> tuple[Int32Array, list[Float32Array]]:
        """K-means of every group."""
        found = [
            learn_codes(
                np.ascontiguousarray(vectors[:, own]),
                books=1,
                rows=rows,
                seed=context.config.seed,
                device=context.options.device,
            )
            for own in self.columns(vectors.shape[1])
        ]
        return np.hstack([one.codes for one in found]), [one.books[0] for one in found]


class Opq(Pq):
    """PQ of rotated vectors, ``e_k R`` (Ge et al., CVPR 2013).

    R deals the principal components out to the groups and then turns in steps to where the rows
    rebuild best. Where scores are dot products, a rotation of all vectors changes none, nor does
    LightGCN's propagation, and R is not stored. With the MLP nothing is rotated: OPQ is PQ there.
    """

    def fitted(
        self, vectors: Float32Array, rows: int, context: Context
    ) -> tuple[Int32Array, list[Float32Array]]:
        """The rotation, then k-means of every group."""
        if context.backbone(vectors.shape[1]).head == "dot":
            basis = principal_components(vectors, np.ones(len(vectors), dtype=np.float32))
            turned: Float32Array = vectors @ basis
            if self._books > 1:
                turned = turned @ grouped_basis(turned, self._books, context.config.seed)
            vectors = turned
        return super().fitted(vectors, rows, context)


class Rq(Quantised):
    """``e_k = C₁[c_k1] + ... + C_m[c_km]``, residual quantisation (Chen et al., Sensors 2010).

    K-means of what the books before leave over, then coordinate descent
    (`cerp.assignment.residual_kmeans`). The books have ``m · rows · d`` values.
    """

    def values_a_row(self, dim: int) -> int:
        """All columns in every book."""
        return self._books * dim

    def columns(self, dim: int) -> list[slice]:
        """All of them."""
        return [slice(0, dim)] * self._books

    def fitted(
        self, vectors: Float32Array, rows: int, context: Context
    ) -> tuple[Int32Array, list[Float32Array]]:
        """Residual k-means."""
        found = learn_codes(
            vectors,
            books=self._books,
            rows=rows,
            seed=context.config.seed,
            device=context.options.device,
        )
        return found.codes, list(found.books)
