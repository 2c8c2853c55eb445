"""CERP's embedding: every vector is the sum of one row from each of two pruned codebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.assignment.bucket_rule import bucket_count
from cerp.assignment.hashing import Hash
from cerp.assignment.index import Index
from cerp.assignment.usage import Mask, Usage, count_usage, rows_of_entities
from cerp.budget import Budget
from cerp.choices import Hashing
from cerp.data.ids import Int64Array
from cerp.errors import ConfigError
from cerp.models.embeddings.base import Stored, StoredTable
from cerp.models.embeddings.composition import Composition
from cerp.models.embeddings.diagnostics import Diagnostics, collisions
from cerp.models.embeddings.positions import checked_positions, places_of, room_for_positions
from cerp.models.embeddings.prunable import PrunableEmbedding
from cerp.pruning.functional import pruning_penalty


class CompositionalEmbedding(PrunableEmbedding):
    """``e_k = P̂[k_p] + Q̂[k_q]``, usable where an ``nn.Embedding`` stood.

    One parameter ``weight`` holds P above Q, so that pruning looks at both
    codebooks together; `PrunableEmbedding` says how W becomes Ŵ.

    The number of rows in each codebook is ``buckets``, or follows from
    ``budget`` (see `cerp.assignment.bucket_rule.bucket_count`). ``positions[k]`` is where
    entity k stands in the line that the hash cuts into buckets (see
    `cerp.assignment.ordering`); without it ids are positions, and neighbouring ids
    share a row of Q.
    """

    capturable = True

    positions: Tensor | None

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
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        if buckets is None and budget is not None:
            limit = Budget.parse(budget).limit(num_embeddings, embedding_dim)
            buckets = bucket_count(limit, num_embeddings, embedding_dim)
        elif buckets is None or budget is not None:
            raise ConfigError("give a compositional embedding either buckets or a budget")
        self.hash = Hash(hash_name, num_embeddings, buckets)
        self.weight = nn.Parameter(torch.empty(sum(self.hash.rows), embedding_dim))
        self.register_buffer("positions", checked_positions(positions, num_embeddings))
        self._compositions: dict[bool, tuple[Tensor, Composition]] = {}
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Xavier-uniform codebooks, each by its own shape."""
        for codebook in self.codebooks(self.weight.data):
            nn.init.xavier_uniform_(codebook, generator=generator)

    def codebooks(self, stacked: Tensor) -> tuple[Tensor, Tensor]:
        """The P and the Q part of something shaped like `weight`."""
        rows_p, rows_q = self.hash.rows
        upper, lower = torch.split(stacked, [rows_p, rows_q])
        return upper, lower

    def rows_of(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of `weight` that make up the vectors of ids: k_p and |P| + k_q."""
        k_p, k_q = self._hashed(ids)
        return k_p, k_q + self.hash.rows[0]

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        upper, lower = self.codebooks(self.effective_weight())
        k_p, k_q = self._hashed(ids)
        return self._zero_padding(F.embedding(k_p, upper) + F.embedding(k_q, lower), ids)

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

    def penalty(self, ids: Tensor, temperature: float = 100.0) -> Tensor:
        """``−Σ_{k in ids} ‖tanh(η e_k)‖²`` while pruning, 0 otherwise, for models of your own.

        Divide by the number of ids to give its weight γ one meaning at every batch size.
        """
        if self.threshold is None:
            return torch.zeros((), device=ids.device)
        return pruning_penalty(self(ids), temperature=temperature)

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
            "buckets": self.hash.buckets,
            "empty_entities": found.empty_entities,
            "empty_rows": found.empty_rows,
        }

    def stored(self) -> Stored:
        """P and Q, with what is left of them."""
        masks = (None, None) if self.mask is None else self.codebooks(self.mask)
        books = self.codebooks(self.weight)
        return Stored(tuple(map(StoredTable, books, _indices(self.hash), masks)))

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return (
            f"{self.num_embeddings}, {self.embedding_dim}, buckets={self.hash.buckets}, "
            f"hash={self.hash.name}, {self.state}"
        )

    def _hashed(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return self.hash(places_of(ids, self.positions, self.num_embeddings))

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
        return rows_of_entities(_indices(self.hash), self.num_embeddings, left_out=padding)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(prefix + "positions")
        self.positions = room_for_positions(
            self.positions, saved, self.num_embeddings, self.weight.device
        )
        self._compositions.clear()
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _indices(buckets: Hash) -> tuple[Index, Index]:
    """The hash as a model file writes it, for P and for Q."""
    rows_p, rows_q = buckets.rows
    if buckets.name == "quotient-remainder":
        return Index("modulo", rows_p), Index("quotient", rows_p)
    if buckets.name == "paper":
        return Index("modulo", rows_p), Index("quotient", buckets.positions_per_row)
    return Index("modulo", rows_p), Index("scaled", rows_q)
