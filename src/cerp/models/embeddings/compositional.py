"""CERP's embedding: every vector is the sum of one row from each of some pruned codebooks."""

from __future__ import annotations

from collections.abc import Iterator
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
from cerp.assignment.residual_kmeans import learn_codes
from cerp.assignment.usage import Mask, Usage, count_usage, rows_of_entities
from cerp.budget import Budget
from cerp.choices import Hashing
from cerp.data.ids import Int64Array
from cerp.errors import ConfigError, DataError
from cerp.models.embeddings.base import (
    ChosenRows,
    Stored,
    StoredTable,
    SumsOfRows,
    checked_ids,
)
from cerp.models.embeddings.composition import Composition
from cerp.models.embeddings.diagnostics import Diagnostics, collisions
from cerp.models.embeddings.kernel_sums import MOST_PRUNED, Lookup, Pruning, sums_by_kernels, takes
from cerp.models.embeddings.packing import narrow
from cerp.models.embeddings.positions import (
    checked_book_rows,
    checked_positions,
    codes_of_vectors,
    places_of,
    room_for,
)
from cerp.models.embeddings.prunable import PrunableEmbedding
from cerp.models.embeddings.row_sums import (
    adds_fast,
    is_fast,
    sums_by_adding,
    sums_of_pruned_rows,
    sums_of_rows,
)
from cerp.pruning.functional import pruning_penalty

CODED_DEVIATION = 0.1
"""Of the first values of rows that learned codes choose."""
FEW = 4
"""Where lookups name less than one of so many rows, only those are pruned, not the codebooks."""
KEPT_ROWS = 1 << 20
"""Ids up to which their rows are kept, 4 bytes for each book, and not computed for each batch."""


class CompositionalEmbedding(PrunableEmbedding):
    """``e_k = Σ_j Ŵ_j[r_j(k)]``: one row from each of m codebooks, usable as an ``nn.Embedding``.

    Which rows is decided in one of two ways.

    - By a hash of a place in a line, as in the paper: two codebooks P and Q,
      ``e_k = P̂[k_p] + Q̂[k_q]``. The number of rows in each is ``buckets``, or follows from
      ``budget`` (see `cerp.assignment.bucket_rule.bucket_count`). ``positions[k]`` is where
      entity k stands in the line that the hash cuts into buckets (see
      `cerp.assignment.ordering`); without it ids are positions, and neighbouring ids share a row
      of Q.
    - By ``codes``, (N, m) row numbers that were learned from data, ``r_j(k) = c_kj`` (see
      `cerp.nn.learn_codes`); ``buckets`` is then the number of rows in each book, by default as
      many as the codes name. Or by codes that are learned here, from the ``vectors``, (N, any
      length), of a model that is there already:
      ``c = argmin Σ_k ‖x_k - Σ_j C_j[c_kj]‖²`` with ``codebooks`` books C_j of ``buckets`` rows.

    One parameter ``weight`` holds all codebooks, the first above the second and so on, so that
    pruning looks at them together; `PrunableEmbedding` says how W becomes Ŵ.
    """

    capturable = True

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

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        *,
        books: int = 4,
        rows: int = 256,
        freeze: bool = False,
        padding_idx: int | None = None,
        seed: int = 0,
    ) -> CompositionalEmbedding:
        """Codes and first values from a trained table: ``Σ_j W_j[c_kj]`` is near ``embeddings[k]``.

        Unlike ``nn.Embedding.from_pretrained``, what is made learns on unless ``freeze`` is given.
        """
        table = embeddings.detach().cpu().float().numpy()
        if table.ndim != 2:
            raise DataError(f"a table has two dimensions, got the shape {table.shape}")
        found = learn_codes(table, books=books, rows=rows, seed=seed)
        made = cls(len(table), table.shape[1], padding_idx, codes=found.codes, buckets=rows)
        made.weight.data.copy_(torch.from_numpy(found.books.reshape(-1, table.shape[1])))
        made.to(device=embeddings.device, dtype=embeddings.dtype)
        made.weight.requires_grad_(not freeze)
        return made

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

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        if takes(self.weight, ids):
            return self._by_kernels(ids)
        if self._is_most(ids):
            ids = checked_ids(ids)
            if is_fast(self.weight):
                return sums_of_rows(self.table(), ids.unsqueeze(-1))
            return F.embedding(ids, self.table())
        rows = self._rows(ids)
        if self.state != "dense" and self._is_few(rows):
            found = _added(self._pruned_rows(rows))
        elif is_fast(self.weight):
            found = self._summed(rows)
        elif adds_fast(self.weight):
            found = sums_by_adding(self.effective_weight(), rows)
        else:
            found = _added(F.embedding(rows, self.effective_weight()))
        return self._zero_padding(found, ids)

    def _by_kernels(self, ids: Tensor) -> Tensor:
        """The same on a GPU that has kernels for it."""
        flat, kept = ids.reshape(-1).contiguous(), self._rows_of_all()
        rows = self._computed_rows(flat.long()) if kept is None else kept
        lookup = Lookup(flat, rows, kept is not None, self.padding_idx)
        threshold = self.threshold
        if threshold is None:
            found = sums_by_kernels(self.weight, lookup, mask=self.mask)
        elif ids.numel() * rows.shape[1] * self.embedding_dim > MOST_PRUNED:
            found = sums_by_kernels(self.effective_weight(), lookup)
        else:
            self._refuse_stale_wrapper()
            pruning = Pruning(threshold, self.shift, self.ceiling)
            found = sums_by_kernels(self.weight, lookup, pruning)
        return found if ids.ndim == 1 else found.view(*ids.shape, self.embedding_dim)

    def _summed(self, rows: Tensor) -> Tensor:
        """Sums of rows of Ŵ, fast on a CPU."""
        threshold = self.threshold
        if threshold is None or threshold.dtype != self.ceiling.dtype:
            return sums_of_rows(self.effective_weight(), rows)
        self._refuse_stale_wrapper()
        return sums_of_pruned_rows(self.weight, threshold, self.shift, self.ceiling, rows)

    def _is_most(self, ids: Tensor) -> bool:
        """Whether to make the whole table, of learned codes, for so many ids: it has no more."""
        if self.hash is not None or torch.compiler.is_compiling():
            return False
        return ids.numel() >= self.num_embeddings

    def _is_few(self, rows: Tensor) -> bool:
        """Whether to prune only the rows that are named; always where any number may come."""
        if _is_exporting():
            return True
        return FEW * rows.numel() < self.num_rows

    def _pruned_rows(self, rows: Tensor) -> Tensor:
        """The rows that are named, at the price of those alone.

        While thresholds learn on a CPU, a row that is named several times is pruned once: sums of
        gradients are then those of whole codebooks to the bit. Where shapes must not depend on
        values, on GPUs and in compiled models, it is pruned each time.
        """
        is_learning = self.threshold is not None and torch.is_grad_enabled()
        if not is_learning or rows.is_cuda or torch.compiler.is_compiling():
            return self.effective_rows(rows)
        named, places = torch.unique(rows, return_inverse=True)
        return F.embedding(places, self.effective_rows(named))

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        composition = self._composition_of(None)
        return self._zero_padding(composition.table(self.effective_weight()))

    def table_blocks(self, order: Tensor, width: int) -> tuple[Tensor, ...]:
        """The rows of `table` in another order, in blocks of ``width`` columns."""
        if self.padding_idx is not None:
            return super().table_blocks(order, width)
        composition = self._composition_of(order)
        return tuple(map(composition.table, torch.split(self.effective_weight(), width, dim=1)))

    def sums_of_rows(self, order: Tensor | None = None) -> SumsOfRows | None:
        """Rows of all codebooks; None where a padding is zero, whatever its rows are."""
        if self.padding_idx is not None:
            return None
        return SumsOfRows(self.effective_weight, self._composition_of(order))

    def chosen_rows(self) -> ChosenRows | None:
        """Rows of all codebooks; None where a padding is zero, whatever its rows are."""
        if self.padding_idx is not None:
            return None
        return ChosenRows(self.effective_weight, self._rows_of_all(), self._rows)

    def penalty(
        self, ids: Tensor, temperature: float = 100.0, *, vectors: Tensor | None = None
    ) -> Tensor:
        """``−Σ_{k in ids} ‖tanh(η e_k)‖²`` while pruning, 0 otherwise, for models of your own.

        Divide by the number of ids to give its weight γ one meaning at every batch size. Pass as
        ``vectors`` what the module gave for these ids, and nothing is looked up again.
        """
        if self.threshold is None:
            return torch.zeros((), device=ids.device)
        if vectors is None:
            vectors = self(ids)
        elif vectors.shape != (*ids.shape, self.embedding_dim):
            raise DataError(
                f"ids of the shape {tuple(ids.shape)} have vectors of the shape "
                f"{(*ids.shape, self.embedding_dim)}, not {tuple(vectors.shape)}; pass what the "
                "module gave for these ids"
            )
        return pruning_penalty(vectors, temperature=temperature)

    @torch.no_grad()
    def diagnostics(self) -> Diagnostics:
        """What is left after pruning, counted over all entities but the padding."""
        masks = self._stored_masks()
        found = collisions(masks, self._rows_of_entities())
        return Diagnostics(**vars(self._usage(masks)), collisions=found)

    def facts(self) -> dict[str, Any]:
        """The main figures of `diagnostics`."""
        found = self._usage(self._stored_masks())
        return {
            "avg_dim": found.average_dimension,
            "overlap": found.overlap,
            "dim_deviation": found.dimension_deviation,
            "few_values": found.few_values,
            "assignment": "learned" if self.hash is None else "hash",
            "codebooks": len(self.book_rows),
            "buckets": self.book_rows[0],
            "empty_entities": found.empty_entities,
            "empty_rows": found.empty_rows,
        }

    def stored(self) -> Stored:
        """The codebooks, with what is left of them."""
        masks: tuple[Tensor | None, ...] = (None,) * len(self.book_rows)
        if self.mask is not None:
            masks = self.codebooks(self.mask)
        books = self.codebooks(self.weight)
        return Stored(tuple(map(StoredTable, books, self._indices(), masks)))

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

    def _usage(self, masks: list[Mask]) -> Usage:
        full_table = self.num_embeddings * self.embedding_dim
        return count_usage(masks, self._rows_of_entities(), full_table=full_table)

    def _stored_masks(self) -> list[Mask]:
        return [mask.cpu().numpy() for mask in self.codebooks(self.stored_mask())]

    def _rows_of_entities(self) -> Iterator[list[Int64Array]]:
        """Of all entities but the padding, some at a time."""
        padding = self.padding_idx
        if padding is not None and self.positions is not None:
            padding = int(self.positions[padding])
        return rows_of_entities(self._indices(), self.num_embeddings, left_out=padding)

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


def _is_exporting() -> bool:
    """Whether ``torch.export`` looks on; before torch 2.7 it is not told from ``torch.compile``."""
    asked = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return bool(asked())


def _starts_of(book_rows: tuple[int, ...]) -> Tensor:
    """At which row of `weight` each codebook begins."""
    return torch.tensor(list(accumulate(book_rows[:-1], initial=0)), dtype=torch.int32)


def _added(parts: Tensor) -> Tensor:
    """``Σ_j`` of (*, m, d); on CPUs one after the other, as `sums_of_rows` has them to the bit."""
    if parts.is_cuda and not torch.compiler.is_compiling():
        return parts.sum(-2)
    first, *others = parts.unbind(-2)
    for part in others:
        first = first + part
    return first


def _hash_indices(buckets: Hash) -> tuple[Index, Index]:
    """The hash as a model file writes it, for P and for Q."""
    rows_p, rows_q = buckets.rows
    if buckets.name == "quotient-remainder":
        return Index("modulo", rows_p), Index("quotient", rows_p)
    if buckets.name == "paper":
        return Index("modulo", rows_p), Index("quotient", buckets.positions_per_row)
    return Index("modulo", rows_p), Index("scaled", rows_q)
