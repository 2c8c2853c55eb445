"""Many fields of very different size under one budget, in one table of offset ids."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.budget import Budget
from cerp.errors import BudgetError, ConfigError, DataError
from cerp.models.embeddings.base import checked_ids
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.embeddings.full import INITIAL_DEVIATION
from cerp.pruning.pruner import Pruner

DENSE_SHARE = 0.1
"""Of the budget: what fields may take that are stored whole, the smallest first."""


class FieldReport(NamedTuple):
    """What a field got of the budget."""

    name: str
    ids: int
    is_dense: bool
    """Whether each of its ids has a whole vector of its own."""
    average_dimension: float
    """Places at which the vector of an id has a stored value, on average."""


class EmbeddingCollection(nn.Module):
    """Vectors for several fields, ``e = E_f[k]``, that together store at most t values.

    Small fields are stored whole, the smallest first, while they take at most a tenth of the
    budget. All others are one table of offset ids, ``Σ_j Ŵ_j[r_j(k + o_f)]``
    (`CompositionalEmbedding`): one pruning run over all of them decides, by the exact top t, how
    much each field keeps.

    Parameters
    ----------
    fields
        How many ids each field has, by name; their order is that of the columns of ids.
    embedding_dim
        d, of all fields.
    budget
        A pruned share of all full tables together such as ``"99%"``, or a number of values.
    positions
        Where each id of the shared table stands in its line (see `cerp.nn.table_positions`); ids of
        the shared fields follow each other in the order of the fields.
    generator
        Draws the first values.

    """

    def __init__(
        self,
        fields: Mapping[str, int],
        embedding_dim: int,
        *,
        budget: Budget | str | int,
        positions: npt.NDArray[np.integer[Any]] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not fields or min(fields.values()) < 1:
            raise ConfigError("a collection needs fields, each with 1 id at least")
        self.fields, self.embedding_dim = dict(fields), embedding_dim
        self.limit = Budget.parse(budget).limit(sum(fields.values()), embedding_dim)
        self.dense_fields = _dense_fields(self.fields, embedding_dim, self.limit)
        self.shared_fields = [name for name in self.fields if name not in self.dense_fields]
        self.dense = nn.ParameterDict()
        for name in self.dense_fields:
            weight = torch.empty(self.fields[name], embedding_dim)
            nn.init.normal_(weight, std=INITIAL_DEVIATION, generator=generator)
            self.dense[name] = nn.Parameter(weight)
        sizes = [self.fields[name] for name in self.shared_fields]
        self.shared: CompositionalEmbedding | None = None
        if sizes:
            self.shared = CompositionalEmbedding(
                sum(sizes),
                embedding_dim,
                budget=self.shared_limit,
                positions=positions,
                generator=generator,
            )
        starts = accumulate(sizes[:-1], initial=0)
        self.offsets = dict(zip(self.shared_fields, starts, strict=True))

    @property
    def shared_limit(self) -> int:
        """Values that the fields in the shared table may keep together."""
        return (
            self.limit - sum(self.fields[name] for name in self.dense_fields) * self.embedding_dim
        )

    @property
    def nnz(self) -> int:
        """How many values are stored."""
        own = sum(self.fields[name] for name in self.dense_fields) * self.embedding_dim
        return own + (0 if self.shared is None else self.shared.nnz)

    def forward(self, ids: Tensor | Mapping[str, Tensor]) -> Any:
        """Vectors of ids: (..., fields) to (..., fields, d), or by name to the same names."""
        if isinstance(ids, Mapping):
            if unknown := set(ids) - set(self.fields):
                raise DataError(
                    f"unknown field {min(unknown)!r}; there are {', '.join(self.fields)}"
                )
            return {name: self._field(name, values) for name, values in ids.items()}
        if ids.shape[-1] != len(self.fields):
            raise DataError(
                f"ids have {ids.shape[-1]} columns, and there are {len(self.fields)} fields"
            )
        columns = zip(self.fields, checked_ids(ids).unbind(-1), strict=True)
        return torch.stack([self._field(name, column) for name, column in columns], dim=-2)

    def pruner(self, steps: int, *, dense_share: float = 0.0, rewind: bool = False) -> Pruner:
        """What prunes the shared table to its part of the budget; thresholds begin here."""
        if self.shared is None:
            raise ConfigError("all fields are stored whole within the budget; nothing is pruned")
        return Pruner(
            [self.shared], self.shared_limit, steps, dense_share=dense_share, rewind=rewind
        )

    @torch.no_grad()
    def report(self) -> list[FieldReport]:
        """What each field got."""
        found = []
        for name, size in self.fields.items():
            average = float(self.embedding_dim)
            if self.shared is not None and name in self.offsets:
                ids = torch.arange(size) + self.offsets[name]
                kept = self.shared.stored_mask().cpu()
                rows = self.shared.rows_of(ids.to(self.shared.weight.device))
                places = torch.zeros(size, self.embedding_dim, dtype=torch.bool)
                for own in rows:
                    places |= kept[own.cpu()]
                average = float(places.sum()) / size
            found.append(FieldReport(name, size, name in self.dense, average))
        return found

    def _field(self, name: str, ids: Tensor) -> Tensor:
        ids = checked_ids(ids)
        if name in self.dense:
            return F.embedding(ids, self.dense[name])
        assert self.shared is not None
        is_known = (ids >= 0) & (ids < self.fields[name])
        # Beyond its own ids are those of another field: -1 is refused, as by nn.Embedding.
        vectors: Tensor = self.shared(torch.where(is_known, ids + self.offsets[name], -1))
        return vectors


def _dense_fields(fields: Mapping[str, int], dim: int, limit: int) -> list[str]:
    """The smallest fields that a tenth of the budget has room for; all, if the budget has."""
    if sum(fields.values()) * dim <= limit:
        return list(fields)
    chosen: list[str] = []
    taken = 0
    for name, size in sorted(fields.items(), key=lambda entry: entry[1]):
        taken += size * dim
        if taken > DENSE_SHARE * limit:
            break
        chosen.append(name)
    if limit - sum(fields[name] for name in chosen) * dim < 2:
        raise BudgetError(f"a budget of {limit:,} values leaves nothing to the larger fields")
    return [name for name in fields if name in chosen]
