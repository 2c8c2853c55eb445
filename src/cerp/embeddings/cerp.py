"""CERP's embedding: every vector is the sum of one row from each of two pruned codebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.budget import Budget, bucket_count
from cerp.config import HashName, ThresholdStart
from cerp.embeddings.base import Embedding
from cerp.embeddings.composition import Composition
from cerp.embeddings.diagnostics import Diagnostics, diagnose
from cerp.embeddings.hashing import Hash
from cerp.errors import ConfigError, DataError
from cerp.pruning import margin, pruning_penalty, soft_threshold, top_mask
from cerp.thresholds import initial_threshold

ENTITIES_AT_ONCE = 1 << 16
"""Entities that `diagnostics` looks at together."""


class CompositionalEmbedding(Embedding):
    """``e_k = P̂[k_p] + Q̂[k_q]``, usable where an ``nn.Embedding`` stood.

    One parameter ``weight`` holds P above Q, so that pruning looks at both
    codebooks together. The module is in one of three states:

    - dense: Ŵ = W;
    - pruning (after `start_pruning`): Ŵ = sign(W)·relu(|W| − σ(S + shift));
    - masked (after `project` or `freeze`): Ŵ = W·mask, and the mask only ever shrinks.

    The number of rows in each codebook is ``buckets``, or follows from
    ``budget`` (see `cerp.budget.bucket_count`). ``positions[k]`` is where
    entity k stands in the line that the hash cuts into buckets (see
    `cerp.data.ordering`); without it ids are positions, and neighbouring ids
    share a row of Q.
    """

    threshold: nn.Parameter | None
    shift: Tensor
    mask: Tensor | None
    positions: Tensor | None

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        buckets: int | None = None,
        budget: Budget | str | int | None = None,
        hash_name: HashName = "balanced",
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
        self.num_rows = sum(self.hash.rows)
        self.weight = nn.Parameter(torch.empty(self.num_rows, embedding_dim))
        self.register_parameter("threshold", None)
        self.register_buffer("shift", torch.zeros(()))
        self.register_buffer("mask", None)
        self.register_buffer("positions", _checked_positions(positions, num_embeddings))
        self._composition: Composition | None = None
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

    def effective_weight(self) -> Tensor:
        """Ŵ: the codebooks as lookups see them."""
        if self.threshold is not None:
            return soft_threshold(self.weight, self.threshold + self.shift)
        return self.weight if self.mask is None else self.weight * self.mask

    def rows_of(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of `weight` that make up the vectors of ids: k_p and |P| + k_q."""
        k_p, k_q = self._hashed(ids)
        return k_p, k_q + self.hash.rows[0]

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        upper, lower = self.codebooks(self.effective_weight())
        k_p, k_q = self._hashed(ids)
        vectors = F.embedding(k_p, upper) + F.embedding(k_q, lower)
        if self.padding_idx is not None:
            vectors = vectors.masked_fill((ids == self.padding_idx).unsqueeze(-1), 0.0)
        return vectors

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        device = self.weight.device
        if self._composition is None or self._composition.pairs.device != device:
            ids = torch.arange(self.num_embeddings, device=device)
            self._composition = Composition.of(*self.rows_of(ids), self.num_rows)
        vectors = self._composition.table(self.effective_weight())
        if self.padding_idx is None:
            return vectors
        return vectors.index_fill(0, torch.tensor([self.padding_idx], device=device), 0.0)

    def start_pruning(
        self,
        init: ThresholdStart = "ones",
        *,
        scale: float = -100.0,
        generator: torch.Generator | None = None,
    ) -> None:
        """Give every entry a learnable threshold (see `cerp.thresholds.initial_threshold`).

        ``threshold`` is a new parameter: make optimizers after this call.
        """
        if self.threshold is not None or self.mask is not None:
            raise ConfigError("pruning starts once, from dense codebooks; these are pruned already")
        start = initial_threshold(init, self.weight.detach(), scale, generator)
        self.threshold = nn.Parameter(start)
        self.shift.zero_()

    def penalty(self, ids: Tensor, temperature: float = 100.0) -> Tensor:
        """``−Σ_{k in ids} ‖tanh(η e_k)‖²`` while pruning, 0 otherwise.

        Divide by the number of ids to give its weight γ one meaning at every batch size.
        """
        if self.threshold is None:
            return super().penalty(ids, temperature)
        return pruning_penalty(self(ids), temperature=temperature)

    @property
    @torch.no_grad()
    def nnz(self) -> int:
        """Non-zero values in both codebooks, as lookups see them."""
        return int(torch.count_nonzero(self.effective_weight()))

    @torch.no_grad()
    def mask_for(self, budget: Budget | str | int) -> Tensor:
        """The entries that `project` would keep: the top t by ``|W| − σ(S + shift)``."""
        limit = Budget.parse(budget).limit(self.num_embeddings, self.embedding_dim)
        if not torch.isfinite(self.weight).all():
            raise DataError("the codebooks hold NaN or infinity; they cannot be ranked for pruning")
        if self.threshold is not None:
            return top_mask(margin(self.weight, self.threshold + self.shift), limit)
        if self.mask is None:
            return top_mask(self.weight.abs(), limit)
        return top_mask(self.weight.abs().masked_fill(~self.mask, -1.0), limit) & self.mask

    @torch.no_grad()
    def project(self, budget: Budget | str | int) -> Tensor:
        """Keep at most t entries from now on, at their soft-thresholded values; drop thresholds.

        Where fewer than t entries are non-zero, those nearest to surviving are
        kept at 0 and may grow again. Returns the mask.
        """
        mask = self.mask_for(budget)
        self._mask_by(mask)
        return mask

    @torch.no_grad()
    def freeze(self) -> Tensor:
        """Keep from now on just the entries that are non-zero now; drop thresholds.

        Masked codebooks keep their mask. Returns the mask.
        """
        mask = self.effective_weight() != 0 if self.mask is None else self.mask
        self._mask_by(mask)
        return mask

    @torch.no_grad()
    def rewind(self, initial_weight: Tensor) -> None:
        """``W = initial · mask``: the surviving entries back at their first values."""
        if self.mask is None:
            raise ConfigError("only masked codebooks can be rewound; call project() or freeze()")
        if initial_weight.shape != self.weight.shape:
            raise DataError(
                f"the initial codebooks have shape {tuple(initial_weight.shape)}, "
                f"these have {tuple(self.weight.shape)}"
            )
        if not torch.isfinite(initial_weight).all():
            raise DataError("the initial codebooks hold NaN or infinity")
        self.weight.copy_(initial_weight.to(self.weight.device) * self.mask)

    @torch.no_grad()
    def diagnostics(self) -> Diagnostics:
        """What is left after pruning, counted over all entities but the padding."""
        nonzero = self.effective_weight() != 0
        return diagnose(nonzero, self._row_pairs(), self.sparsity)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        state = (
            "pruning" if self.threshold is not None else "dense" if self.mask is None else "masked"
        )
        return (
            f"{self.num_embeddings}, {self.embedding_dim}, buckets={self.hash.buckets}, "
            f"hash={self.hash.name}, {state}"
        )

    def _hashed(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        ids = ids.long()
        k = ids if self.positions is None else self.positions[ids]
        # No hash has a row for -1, so that lookups refuse ids out of range, on GPUs too,
        # as nn.Embedding does.
        return self.hash(torch.where((ids >= 0) & (ids < self.num_embeddings), k, -1))

    def _row_pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, self.num_embeddings, ENTITIES_AT_ONCE):
            end = min(start + ENTITIES_AT_ONCE, self.num_embeddings)
            ids = torch.arange(start, end, device=self.weight.device)
            yield self.rows_of(ids if self.padding_idx is None else ids[ids != self.padding_idx])

    def _mask_by(self, mask: Tensor) -> None:
        self.weight.copy_(self.effective_weight() * mask)
        self.threshold, self.mask = None, mask
        self.shift.zero_()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Take over the state, dense, pruning or masked, of what is loaded."""
        if prefix + "threshold" not in state_dict:
            self.threshold = None
        elif self.threshold is None:
            self.threshold = nn.Parameter(torch.empty_like(self.weight))
        for name, shape, dtype in (
            ("mask", self.weight.shape, torch.bool),
            ("positions", (self.num_embeddings,), torch.int32),
        ):
            if prefix + name not in state_dict:
                setattr(self, name, None)
            elif getattr(self, name) is None:
                setattr(self, name, torch.empty(shape, dtype=dtype, device=self.weight.device))
        self._composition = None
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _checked_positions(
    positions: npt.NDArray[np.integer[Any]] | None, num_embeddings: int
) -> Tensor | None:
    """A permutation of 0..N-1 as int32; anything else would give two entities one vector."""
    if positions is None:
        return None
    copied = np.array(positions, dtype=np.int32)
    taken = np.zeros(num_embeddings, dtype=bool)
    if copied.shape == taken.shape and copied.min() >= 0 and copied.max() < num_embeddings:
        taken[copied] = True
    if not taken.all():
        raise DataError(
            f"positions must hold each of 0..{num_embeddings - 1} once, one for each entity"
        )
    return torch.from_numpy(copied)
