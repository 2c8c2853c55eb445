"""Which rows of some codebooks every entity has: by a hash, or by codes."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.assignment.bucket_rule import bucket_count
from cerp.assignment.hashing import Hash
from cerp.assignment.index import Index
from cerp.budget import Budget
from cerp.choices import Hashing
from cerp.errors import ConfigError
from cerp.models.embeddings.base import checked_ids
from cerp.models.embeddings.composition import Composition
from cerp.models.embeddings.packing import narrow
from cerp.models.embeddings.positions import (
    checked_book_rows,
    checked_positions,
    codes_of_vectors,
    places_of,
    room_for,
)
from cerp.models.embeddings.prunable import PrunableEmbedding

CODED_DEVIATION = 0.1
"""Of the first values of rows that learned codes choose."""
KEPT_ROWS = 1 << 20
"""Ids up to which their rows are kept, 4 bytes for each book, and not computed for each batch."""


class CodebookRows(PrunableEmbedding):
    """One row from each of m codebooks for every entity; `CompositionalEmbedding` adds them up.

    Its docstring says how they are chosen. What is kept of the choice is the hash with
    ``positions``, or ``codes``; the rows of all ids and their `Composition` are derived from it.
    """

    positions: Tensor | None
    codes: Tensor | None
    _starts: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        buckets: int | None = None,
        budget: Budget | str | int | None = None,
        hash_name: Hashing = "balanced",
        positions: npt.NDArray[np.integer[Any]] | None = None,
        codes: npt.NDArray[np.integer[Any]] | None = None,
        vectors: npt.NDArray[np.floating[Any]] | None = None,
        codebooks: int | None = None,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        self.hash: Hash | None = None
        if vectors is not None:
            codes = codes_of_vectors(vectors, num_embeddings, codebooks, buckets, codes)
        if codes is None:
            self.hash = Hash(hash_name, num_embeddings, self._buckets(buckets, budget))
            self.book_rows: tuple[int, ...] = self.hash.rows
        elif budget is not None or positions is not None:
            raise ConfigError(
                "codes say which rows an entity has; leave out budget and positions, and give "
                "buckets for the number of rows in each codebook"
            )
        else:
            self.book_rows = checked_book_rows(codes, num_embeddings, buckets)
        if codebooks not in (None, len(self.book_rows)):
            raise ConfigError(
                f"there are {len(self.book_rows)} codebooks here, not {codebooks}; a hash has two, "
                "codes as many as columns, and those learned from vectors as many as you say"
            )
        self.weight = nn.Parameter(torch.empty(sum(self.book_rows), embedding_dim))
        self.register_buffer("positions", checked_positions(positions, num_embeddings))
        self.register_buffer(
            "codes", None if codes is None else torch.from_numpy(np.array(codes, dtype=np.int32))
        )
        self.register_buffer("_starts", _starts_of(self.book_rows), persistent=False)
        self._compositions: dict[bool, tuple[Tensor, Composition]] = {}
        self._kept_rows: Tensor | None = None
        self._put_missing_buffers_last()
        self.reset_parameters(generator)
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)

    def _buckets(self, buckets: int | None, budget: Budget | str | int | None) -> int:
        if (buckets is None) == (budget is None):
            raise ConfigError("give a compositional embedding either buckets or a budget")
        if buckets is not None:
            return buckets
        assert budget is not None
        limit = Budget.parse(budget).limit(self.num_embeddings, self.embedding_dim)
        return bucket_count(limit, self.num_embeddings, self.embedding_dim)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Xavier-uniform codebooks, each by its own shape; normal ones of N(0, 0.1²) for codes."""
        if self.codes is not None:
            nn.init.normal_(self.weight, std=CODED_DEVIATION, generator=generator)
            return
        for codebook in self.codebooks(self.weight.data):
            nn.init.xavier_uniform_(codebook, generator=generator)

    @torch.no_grad()
    def recode(self, codes: npt.NDArray[np.integer[Any]]) -> None:
        """Give every entity other rows of the same codebooks, where codes choose them."""
        if self.codes is None or codes.shape != tuple(self.codes.shape):
            raise ConfigError("only an embedding by codes can have others, one for each book")
        checked_book_rows(codes, self.num_embeddings, self.book_rows[0])
        self.codes.copy_(torch.from_numpy(np.array(codes, dtype=np.int32)))
        self._compositions = {}
        if self._kept_rows is not None:  # in their place: a recorded step goes on reading them
            self._kept_rows.copy_(self.codes + self._starts)

    def codebooks(self, stacked: Tensor) -> tuple[Tensor, ...]:
        """The parts of something shaped like `weight`, one for each codebook."""
        return torch.split(stacked, list(self.book_rows))

    def rows_of(self, ids: Tensor) -> tuple[Tensor, ...]:
        """Rows of `weight` that make up the vectors of ids: ``r_j(k)`` behind the books before."""
        return self._rows(ids).long().unbind(-1)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        sizes = f"{self.num_embeddings}, {self.embedding_dim}, "
        if self.hash is None:
            return f"{sizes}codebooks={len(self.book_rows)}x{self.book_rows[0]}, {self.state}"
        return f"{sizes}buckets={self.hash.buckets}, hash={self.hash.name}, {self.state}"

    def _rows(self, ids: Tensor) -> Tensor:
        """Rows of `weight` that make up the vectors of ids, (*, m); ids out of range have none.

        Codes, and rows that are kept, refuse such ids here; a hash gives them the row -1, which
        lookups refuse.
        """
        ids = checked_ids(ids).long()
        kept = None if torch.compiler.is_compiling() else self._rows_of_all()
        return self._computed_rows(ids) if kept is None else F.embedding(ids, kept)

    def _rows_of_all(self) -> Tensor | None:
        """Those of all ids, (N, m), where there are not too many to be kept."""
        if self.num_embeddings > KEPT_ROWS:
            return None
        device = self.weight.device
        if self._kept_rows is None or self._kept_rows.device != device:
            every = torch.arange(self.num_embeddings, device=device)
            self._kept_rows = self._computed_rows(every).int()
        return self._kept_rows

    def _computed_rows(self, ids: Tensor) -> Tensor:
        """`_rows` by arithmetic, or from codes."""
        if self.hash is None:
            assert self.codes is not None
            return F.embedding(ids, self.codes) + self._starts
        in_p, in_q = self.hash(places_of(ids, self.positions, self.num_embeddings))
        return torch.stack([in_p, torch.where(in_q < 0, in_q, in_q + self.book_rows[0])], -1)

    def _indices(self) -> tuple[Index, ...]:
        """Which rows entities have, as a model file writes it."""
        if self.hash is not None:
            return _hash_indices(self.hash)
        assert self.codes is not None
        columns = self.codes.cpu().numpy().T
        return tuple(
            Index("coded", rows, codes=np.ascontiguousarray(column))
            for rows, column in zip(self.book_rows, columns, strict=True)
        )

    def _composition_of(self, order: Tensor | None) -> Composition:
        """Of all ids in native order, or in a given one.

        One of each is kept: a recorded step (see `cerp.training.cuda_graphs`) goes on reading
        that of its order while evaluation asks for the other.
        """
        device = self.weight.device
        kept = self._compositions.get(order is None)
        if kept is None or kept[1].device != device or (order is not None and kept[0] is not order):
            ids = torch.arange(self.num_embeddings, device=device) if order is None else order
            kept = (ids, Composition.of(self.rows_of(ids), self.num_rows))
            self._compositions[order is None] = kept
        return kept[1]

    def _put_missing_buffers_last(self) -> None:
        """Behind those that are there: ``torch.export`` fails on one behind a missing one."""
        for name in [name for name, buffer in self._buffers.items() if buffer is None]:
            self._buffers[name] = self._buffers.pop(name)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Codes in as few bytes as they take, beside what every prunable embedding saves."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.codes is not None:
            destination[prefix + "codes"] = narrow(self.codes)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        device = self.weight.device
        self.positions = room_for(self.positions, state_dict.get(prefix + "positions"), device)
        saved = state_dict.get(prefix + "codes")
        # Without saved codes those of here stay, and torch says that their key is missing: which
        # hash the saved weights were trained with is not known.
        if saved is not None and self.num_rows % saved.shape[1] == 0:
            self.codes = room_for(self.codes, saved, device)
            self.hash = None
            self.book_rows = (self.num_rows // saved.shape[1],) * saved.shape[1]
            self._starts = _starts_of(self.book_rows).to(device)
        self._compositions.clear()
        self._kept_rows = None
        self._put_missing_buffers_last()
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _starts_of(book_rows: tuple[int, ...]) -> Tensor:
    """At which row of `weight` each codebook begins."""
    return torch.tensor(list(accumulate(book_rows[:-1], initial=0)), dtype=torch.int32)


def _hash_indices(buckets: Hash) -> tuple[Index, Index]:
    """The hash as a model file writes it, for P and for Q."""
    rows_p, rows_q = buckets.rows
    if buckets.name == "quotient-remainder":
        return Index("modulo", rows_p), Index("quotient", rows_p)
    if buckets.name == "paper":
        return Index("modulo", rows_p), Index("quotient", buckets.positions_per_row)
    return Index("modulo", rows_p), Index("scaled", rows_q)
