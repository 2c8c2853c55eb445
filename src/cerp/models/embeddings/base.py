"""What every embedding method offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from cerp.assignment.index import Combine, Index
from cerp.errors import ConfigError, DataError
from cerp.models.embeddings.composition import Composition
from cerp.models.sparse import reordered


class Cost(NamedTuple):
    """How many numbers an embedding stores, by two counts."""

    paper_count: int
    """As the papers compare methods: the values that belong to single entities or codebook rows.
    A budget limits this one."""
    stored_count: int
    """Every learned number that is kept to have the vectors: networks, mixing weights and the
    scales of normalisations as well."""


@dataclass(frozen=True, eq=False)
class StoredTable:
    """One table of a model file."""

    weight: Tensor
    """A view of the parameter."""
    index: Index
    """Which row belongs to which position."""
    mask: Tensor | None = None
    """Which values are stored; None: all."""


class Stored(NamedTuple):
    """What a model file holds of an embedding."""

    tables: tuple[StoredTable, ...]
    combine: Combine = "sum"
    """How the rows of an entity are put together."""


class SumsOfRows(NamedTuple):
    """How every vector is a sum of rows of one matrix: ``E = S Ŵ``."""

    weight: Callable[[], Tensor]
    """Ŵ as it is now."""
    composition: Composition
    """S, with a line for each entity in the order that was asked for. Rows that change make another
    one."""


class ChosenRows(NamedTuple):
    """How vectors are sums of rows of one matrix, where not all of them are asked for."""

    weight: Callable[[], Tensor]
    """Ŵ as it is now."""
    of_all: Tensor | None
    """(N, m): the rows of all entities, where they are kept."""
    of: Callable[[Tensor], Tensor]
    """Those of some ids, (n,) to (n, m)."""


def checked_ids(ids: Tensor) -> Tensor:
    """Ids that are whole numbers; others would be rounded, or taken for 0 and 1."""
    if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool:
        raise DataError(
            f"ids must be whole numbers (torch.int64 or torch.int32), got {ids.dtype}; convert "
            "them with .long() if that is what they mean"
        )
    return ids


class Embedding(nn.Module, ABC):
    """Vectors for entities 0..num_embeddings-1: users first, then items.

    Subclasses are siblings: the backbones, the training loop, the budget and
    the evaluation treat them alike. The first three arguments are those of
    ``nn.Embedding``, and the vector of ``padding_idx`` is always zero.
    """

    capturable: ClassVar[bool] = False
    """Whether lookups and their gradients can be recorded as a CUDA graph: they never wait for
    the device, and no shape depends on values."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None) -> None:
        super().__init__()
        if num_embeddings < 1 or embedding_dim < 1:
            raise ConfigError(
                "an embedding needs at least 1 entity and 1 dimension, "
                f"got {num_embeddings} and {embedding_dim}"
            )
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ConfigError(
                f"padding_idx {padding_idx} is none of the {num_embeddings:,} embeddings"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings

    @abstractmethod
    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""

    @abstractmethod
    def table(self) -> Tensor:
        """The vectors of all entities, for backbones that need every one of them."""

    def table_blocks(self, order: Tensor, width: int) -> tuple[Tensor, ...]:
        """The rows of `table` in another order, in blocks of ``width`` columns.

        The order names each entity once. Subclasses that compute their table
        can compute it in this form.
        """
        return tuple(reordered(block, order) for block in torch.split(self.table(), width, dim=1))

    def sums_of_rows(self, order: Tensor | None = None) -> SumsOfRows | None:
        """What all vectors are sums of rows of, and which rows; None: they are not such sums.

        Entities come in native order, or in one that names each once.
        """
        return None

    def lookup(self) -> Callable[[Tensor], Tensor]:
        """Vectors of ids by the weights as they are now, for many lookups.

        Subclasses make of their weights just once what every lookup needs of them.
        """
        return self

    def chosen_rows(self) -> ChosenRows | None:
        """What vectors are sums of rows of, and which rows; None: they are not such sums."""
        return None

    @property
    @abstractmethod
    def nnz(self) -> int:
        """How many values are stored."""

    @property
    def sparsity(self) -> float:
        """``1 − nnz / (N·d)``: the pruned share of the full table."""
        return 1 - self.nnz / (self.num_embeddings * self.embedding_dim)

    def cost(self) -> Cost:
        """What is stored; methods without networks store their values and nothing else."""
        return Cost(self.nnz, self.nnz)

    def facts(self) -> dict[str, Any]:
        """What a result says of the vectors' shape: average dimension, and overlap if it has one.

        By default the values that belong to an entity on average.
        """
        return {"avg_dim": self.cost().paper_count / self.num_embeddings, "overlap": None}

    def stored(self) -> Stored:
        """The tables that a model file holds, as views of the parameters."""
        raise ConfigError(
            f"{type(self).__name__} cannot be written to a model file: its vectors are not rows "
            "of tables. With LightGCN, export the propagated tables instead (graph='tables')"
        )

    def _zero_padding(self, vectors: Tensor, ids: Tensor | None = None) -> Tensor:
        """The vectors of ids, or of all entities, with that of the padding zero."""
        if self.padding_idx is None:
            return vectors
        if ids is None:
            padding = torch.tensor([self.padding_idx], device=vectors.device)
            return vectors.index_fill(0, padding, 0.0)
        return vectors.masked_fill((ids == self.padding_idx).unsqueeze(-1), 0.0)
