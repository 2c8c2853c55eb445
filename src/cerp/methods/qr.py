"""QR: every vector is put together from a quotient row and a remainder row."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.assignment.index import Combine, Index
from cerp.errors import BudgetError, ConfigError
from cerp.methods.made_to_fit import MadeToFit
from cerp.models.embeddings.base import Embedding, Stored, StoredTable
from cerp.models.embeddings.positions import checked_positions, places_of, room_for

Operation = Literal["mult", "add", "concat"]

COMBINE: dict[Operation, Combine] = {"mult": "product", "add": "sum", "concat": "concat"}
"""As a model file calls the operations."""
PRODUCT_STD = 0.1
"""Standard deviation of the entries of a vector at the start, where it is a product."""


class QuotientRemainderEmbedding(Embedding):
    """``e_k = R[k mod m] ∘ Q[k div m]`` (Shi et al., KDD 2020).

    ∘ is a product (``mult``), a sum (``add``) or a concatenation (``concat``:
    ⌈d/2⌉ entries from R, ⌊d/2⌋ from Q). R has m rows and Q ⌈N/m⌉, so all pairs
    of rows differ. ``positions`` are used in place of ids, as in
    `CompositionalEmbedding`: a row of Q belongs to m neighbours in that line.

    Where we differ: the authors' code draws both tables from U(√(1/N), 1), all
    positive, and compresses only tables of more than 200 rows. Scores here are
    dot products, so factors of a product start normal around 0, such that the
    product has a standard deviation of 0.1; sums and concatenations start
    Xavier-uniform. Users and items are one table. The row of a large k is an
    integer division, never a rounded one.
    """

    capturable = True

    positions: Tensor | None

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        remainders: int,
        operation: Operation = "mult",
        positions: npt.NDArray[np.integer[Any]] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        if remainders < 1:
            raise ConfigError(f"QR needs at least 1 remainder row, got {remainders}")
        self.operation, self.remainders = operation, remainders
        width_r, width_q = _widths(embedding_dim, operation)
        self.remainder = nn.Parameter(torch.empty(remainders, width_r))
        self.quotient = nn.Parameter(torch.empty(-(-num_embeddings // remainders), width_q))
        self.register_buffer("positions", checked_positions(positions, num_embeddings))
        self.reset_parameters(generator)

    @classmethod
    def for_limit(
        cls,
        num_embeddings: int,
        embedding_dim: int,
        limit: int,
        *,
        padding_idx: int | None = None,
        operation: Operation = "mult",
        positions: npt.NDArray[np.integer[Any]] | None = None,
        generator: torch.Generator | None = None,
    ) -> QuotientRemainderEmbedding:
        """With `remainder_count` rows in R."""
        return cls(
            num_embeddings,
            embedding_dim,
            padding_idx,
            remainders=remainder_count(limit, num_embeddings, embedding_dim, operation),
            operation=operation,
            positions=positions,
            generator=generator,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Normal factors for a product, Xavier-uniform tables otherwise."""
        for table in (self.remainder, self.quotient):
            if self.operation == "mult":
                nn.init.normal_(table, std=math.sqrt(PRODUCT_STD), generator=generator)
            else:
                nn.init.xavier_uniform_(table, generator=generator)

    def rows_of(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of R and of Q: ``(k mod m, k div m)``; no row of Q for ids out of range."""
        places = places_of(ids, self.positions, self.num_embeddings)
        return places % self.remainders, places // self.remainders

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        remainder, quotient = self.rows_of(ids)
        rows = F.embedding(remainder, self.remainder), F.embedding(quotient, self.quotient)
        return self._zero_padding(self._combined(*rows), ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim).

        In the order of positions it is every row of Q with every row of R, so
        that the gradient of a row is a plain sum, in a fixed order on GPUs too.
        """
        shape = len(self.quotient), self.remainders
        remainder = self.remainder.expand(*shape, -1)
        quotient = self.quotient[:, None].expand(*shape, -1)
        vectors = self._combined(remainder, quotient).flatten(0, 1)[: self.num_embeddings]
        if self.positions is not None:
            vectors = vectors.index_select(0, self.positions)
        return self._zero_padding(vectors)

    @property
    def nnz(self) -> int:
        """All values of both tables: they are stored, zero or not."""
        return self.remainder.numel() + self.quotient.numel()

    def _combined(self, remainder: Tensor, quotient: Tensor) -> Tensor:
        if self.operation == "concat":
            return torch.cat([remainder, quotient], dim=-1)
        return remainder * quotient if self.operation == "mult" else remainder + quotient

    def facts(self) -> dict[str, Any]:
        """Rows are shared, but every entity's vector is whole."""
        return {"avg_dim": float(self.embedding_dim), "overlap": None}

    def stored(self) -> Stored:
        """R and Q."""
        tables = (
            StoredTable(self.remainder, Index("modulo", self.remainders)),
            StoredTable(self.quotient, Index("quotient", self.remainders)),
        )
        return Stored(tables, COMBINE[self.operation])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(prefix + "positions")
        self.positions = room_for(self.positions, saved, self.remainder.device)
        super()._load_from_state_dict(state_dict, prefix, *rest)


def remainder_count(
    limit: int, num_embeddings: int, embedding_dim: int, operation: Operation = "mult"
) -> int:
    """The largest m with ``m·w_R + ⌈N/m⌉·w_Q <= t``, w the widths of the tables.

    A small and a large m meet a budget; the large one leaves fewer entities to
    a row of R, where most of the values are.
    """
    width_r, width_q = _widths(embedding_dim, operation)

    def values(remainders: int) -> int:
        return remainders * width_r + -(-num_embeddings // remainders) * width_q

    most = min(limit // width_r, num_embeddings)
    found = next((m for m in range(most, 0, -1) if values(m) <= limit), None)
    if found is None:
        # The smallest sum is near m = √N: beyond 2√N the first term alone is larger.
        smallest = min(map(values, range(1, 2 * math.isqrt(num_embeddings) + 4)))
        raise BudgetError(
            f"a budget of {limit:,} values is too small for QR ({operation}) with "
            f"{num_embeddings:,} entities of dimension {embedding_dim}: the smallest possible "
            f"budget is {smallest:,}"
        )
    return found


def _widths(embedding_dim: int, operation: Operation) -> tuple[int, int]:
    """Columns of R and of Q."""
    if operation not in get_args(Operation):
        names = ", ".join(get_args(Operation))
        raise ConfigError(f"QR has no operation {operation!r}; choose one of {names}")
    if operation != "concat":
        return embedding_dim, embedding_dim
    if embedding_dim < 2:
        raise ConfigError("QR can concatenate two parts only where vectors have 2 or more entries")
    return -(-embedding_dim // 2), embedding_dim // 2


class Qr(MadeToFit):
    """A row for the quotient and one for the remainder; ``operation``: mult, add or concat."""

    embedding_class = QuotientRemainderEmbedding
    is_ordered = True
