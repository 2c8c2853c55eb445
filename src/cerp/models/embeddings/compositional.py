"""CERP's embedding: every vector is the sum of one row from each of some pruned codebooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor

from cerp.assignment.residual_kmeans import learn_codes
from cerp.assignment.usage import Mask, Usage, count_usage, rows_of_entities
from cerp.data.ids import Int64Array
from cerp.errors import DataError
from cerp.models.embeddings.base import (
    ChosenRows,
    Stored,
    StoredTable,
    SumsOfRows,
    checked_ids,
)
from cerp.models.embeddings.codebook_rows import CodebookRows
from cerp.models.embeddings.diagnostics import Diagnostics, collisions
from cerp.models.embeddings.kernel_sums import MOST_PRUNED, Lookup, Pruning, sums_by_kernels, takes
from cerp.models.embeddings.row_sums import (
    adds_fast,
    is_fast,
    sums_by_adding,
    sums_of_pruned_rows,
    sums_of_rows,
)
from cerp.pruning.functional import pruning_penalty

FEW = 4
"""Where lookups name less than one of so many rows, only those are pruned, not the codebooks."""


class CompositionalEmbedding(CodebookRows):
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

    def lookup(self) -> Callable[[Tensor], Tensor]:
        """Vectors of ids by codebooks that are pruned once for all lookups."""
        weight = self.effective_weight()

        def vectors(ids: Tensor) -> Tensor:
            rows = self._rows(ids)
            fast = is_fast(weight)
            sums = sums_of_rows(weight, rows) if fast else _added(F.embedding(rows, weight))
            return self._zero_padding(sums, ids)

        return vectors

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


def _is_exporting() -> bool:
    """Whether ``torch.export`` looks on; before torch 2.7 it is not told from ``torch.compile``."""
    asked = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return bool(asked())


def _added(parts: Tensor) -> Tensor:
    """``Σ_j`` of (*, m, d); on CPUs one after the other, as `sums_of_rows` has them to the bit."""
    if parts.is_cuda and not torch.compiler.is_compiling():
        return parts.sum(-2)
    first, *others = parts.unbind(-2)
    for part in others:
        first = first + part
    return first
