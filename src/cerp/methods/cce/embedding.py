"""CCE's embedding: two rows for each chunk of a vector, one clustered and one drawn."""

from __future__ import annotations

import math

import numpy as np
import torch

from cerp.assignment.index import HASH_PRIME, Index
from cerp.assignment.residual_kmeans import learn_codes
from cerp.assignment.rotation import group_widths
from cerp.errors import BudgetError, ConfigError
from cerp.methods.hashed import FACTOR_END
from cerp.models.embeddings.compositional import CompositionalEmbedding

CHUNKS, ITERATIONS = 4, 25
"""As the authors have them, but for the iterations of k-means: they take up to 100."""


class ClusteredEmbedding(CompositionalEmbedding):
    """``e_k = (T_c[h_c(k)] + S_c[g_c(k)])`` over the chunks c (Tsang and Ahle, NeurIPS 2023).

    T_c and S_c have R rows for the columns of chunk c, so that ``2 R d`` values count. At first
    both rows of an entity are drawn. `cluster` learns h_c by k-means of the vectors as they are
    and draws g_c, a hash, anew. In a file h_c takes ``⌈log₂ R⌉`` bits for each entity and chunk,
    and g_c two numbers.

    The books are those of `CompositionalEmbedding`, T_1, S_1, T_2, ..., each masked to its chunk.
    """

    capturable = False  # codes change between epochs

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        rows: int,
        chunks: int = CHUNKS,
        generator: torch.Generator | None = None,
    ) -> None:
        if not 1 <= chunks <= embedding_dim or rows < 1:
            raise ConfigError(
                f"CCE needs at least 1 row and 1 to {embedding_dim} chunks, got {rows} rows and "
                f"{chunks} chunks"
            )
        codes = torch.randint(rows, (num_embeddings, 2 * chunks), generator=generator)
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            codes=codes.numpy(),
            buckets=rows,
            generator=generator,
        )
        self.chunks = chunks
        self.register_buffer("coefficients", torch.zeros((chunks, 2), dtype=torch.int64))
        mask = torch.zeros((2 * chunks, rows, embedding_dim), dtype=torch.bool)
        for chunk, columns in enumerate(self.columns()):
            mask[2 * chunk : 2 * chunk + 2, :, columns] = True
        self.restrict(mask.flatten(0, 1))
        self._draw_hashes(generator)

    coefficients: torch.Tensor

    @classmethod
    def for_limit(
        cls,
        num_embeddings: int,
        embedding_dim: int,
        limit: int,
        *,
        padding_idx: int | None = None,
        chunks: int = CHUNKS,
        generator: torch.Generator | None = None,
    ) -> ClusteredEmbedding:
        """``R = ⌊t / 2d⌋`` rows, but at most N."""
        rows = min(limit // (2 * embedding_dim), num_embeddings)
        if rows < 1:
            raise BudgetError(
                f"a budget of {limit:,} values is too small for CCE: one row in both tables, the "
                f"smallest possible budget, has {2 * embedding_dim:,}"
            )
        return cls(
            num_embeddings,
            embedding_dim,
            padding_idx,
            rows=rows,
            chunks=chunks,
            generator=generator,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Uniform in ±d^(-1/2), as the authors have it."""
        bound = 1 / math.sqrt(self.embedding_dim)
        torch.nn.init.uniform_(self.weight, -bound, bound, generator=generator)

    def columns(self) -> list[slice]:
        """Of each chunk."""
        ends = np.cumsum([0, *group_widths(self.embedding_dim, self.chunks)]).tolist()
        return [slice(ends[chunk], ends[chunk + 1]) for chunk in range(self.chunks)]

    @torch.no_grad()
    def cluster(self, seed: int) -> None:
        """Learn the clustered rows again from the vectors as they are, and draw the others.

        T becomes the means of clusters; S the means, over the entities that g gives a row, of what
        T leaves over, and 0 where it gives a row to none.
        """
        assert self.codes is not None
        vectors = self.table().detach().cpu().float().numpy()
        device = self.weight.device
        rows = self.book_rows[0]
        self._draw_hashes(torch.Generator().manual_seed(seed))
        codes = self.codes.cpu().numpy().copy()
        books = self.weight.detach().cpu().float().reshape(2 * self.chunks, rows, -1).clone()
        for chunk, own in enumerate(self.columns()):
            part = np.ascontiguousarray(vectors[:, own])
            found = learn_codes(
                part, books=1, rows=rows, seed=seed, iterations=ITERATIONS, device=device.type
            )
            codes[:, 2 * chunk] = found.codes[:, 0]
            left = part - found.books[0][found.codes[:, 0]]
            drawn = codes[:, 2 * chunk + 1]
            counts = np.bincount(drawn, minlength=rows)
            sums = np.zeros((rows, part.shape[1]))
            np.add.at(sums, drawn, left)
            means = (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)
            books[2 * chunk, :, own] = torch.from_numpy(found.books[0])
            books[2 * chunk + 1, :, own] = torch.from_numpy(means)
        self.weight.copy_(books.flatten(0, 1))
        self.recode(codes)

    def _draw_hashes(self, generator: torch.Generator | None) -> None:
        """A factor and an offset for each chunk, and the rows that they give."""
        assert self.codes is not None
        factors = torch.randint(1, FACTOR_END, (self.chunks,), generator=generator)
        offsets = torch.randint(0, HASH_PRIME, (self.chunks,), generator=generator)
        self.coefficients.copy_(torch.stack([factors, offsets], dim=1))
        codes = self.codes.cpu().numpy().copy()
        places = np.arange(self.num_embeddings)
        for chunk, index in enumerate(self._hashes()):
            codes[:, 2 * chunk + 1] = index.rows(places, self.num_embeddings)
        self.recode(codes)

    def _hashes(self) -> list[Index]:
        return [
            Index("hashed", self.book_rows[0], factor, offset)
            for factor, offset in self.coefficients.tolist()
        ]

    def _indices(self) -> tuple[Index, ...]:
        """Clusters as codes, the others by their hash."""
        clustered = super()._indices()[::2]
        pairs = zip(clustered, self._hashes(), strict=True)
        return tuple(index for pair in pairs for index in pair)
