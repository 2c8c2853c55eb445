"""Many fields of very different size under one budget, in one table of offset ids."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.assignment.bucket_rule import bucket_count
from cerp.assignment.field_rule import SCALE_BYTES, layout_of_bytes, layout_of_values
from cerp.assignment.grouped_codes import codes_of_fields
from cerp.assignment.hashing import Hash
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
    code_bits: int
    """Bits that say which rows an id has; 0 where a hash says it, or the id has its own."""


class EmbeddingCollection(nn.Module):
    """Vectors for several fields, ``e = E_f[k]``, that together stay within one budget.

    Small fields are stored whole, the smallest first, while they take at most a tenth of the
    budget. All others are one table of offset ids, ``Σ_j Ŵ_j[r_j(k + o_f)]``
    (`CompositionalEmbedding`), in one of two ways:

    - without ``tables``, a hash says which two rows an id has, and one pruning run over all fields
      (`pruner`) decides, by the exact top t, how much each field keeps;
    - with ``tables``, the trained ones of a model that is there already, rows are learned from
      them (`cerp.assignment.grouped_codes`), with their values as first ones. Nothing is left to
      prune: the collection is within its budget from the start, and training goes on from there.

    Parameters
    ----------
    fields
        How many ids each field has, by name; their order is that of the columns of ids.
    embedding_dim
        d, of all fields.
    budget
        A pruned share of all full tables together such as ``"99%"``, a number of values, or bytes
        such as ``"40KB"``: values at a byte each with a scale of 16 bits for each row, and what
        says which rows ids have and which values are stored.
    tables
        A trained (ids, d) table for each field.
    counts
        How often training names each id, for each field: ids weigh by the root of it where codes
        are learned from tables. Those that training never names, of which tables know nothing,
        share one vector, the mean of all others.
    positions
        Where each id of the shared table stands in its line (see `cerp.nn.table_positions`); ids of
        the shared fields follow each other in the order of the fields. For a hash.
    seed
        Of learned codes.
    generator
        Draws the first values of a collection without tables.

    """

    _columns: Tensor
    _starts: Tensor
    _sizes: Tensor

    def __init__(
        self,
        fields: Mapping[str, int],
        embedding_dim: int,
        *,
        budget: Budget | str | int,
        tables: Mapping[str, Tensor] | None = None,
        counts: Mapping[str, npt.NDArray[np.integer[Any]]] | None = None,
        positions: npt.NDArray[np.integer[Any]] | None = None,
        seed: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not fields or min(fields.values()) < 1:
            raise ConfigError("a collection needs fields, each with 1 id at least")
        if tables is None and counts is not None:
            raise ConfigError("counts weigh the ids of tables; give tables as well")
        if tables is not None and positions is not None:
            raise ConfigError("rows are learned from the tables; leave out positions")
        self.fields, self.embedding_dim = dict(fields), embedding_dim
        _check_parts(tables, self.fields, "table", (embedding_dim,))
        _check_parts(counts, self.fields, "line of counts", ())
        parsed, ids = Budget.parse(budget), sum(fields.values())
        self.byte_limit = parsed.size
        room = parsed.size if parsed.size is not None else parsed.limit(ids, embedding_dim)
        row = embedding_dim + (0 if parsed.size is None else SCALE_BYTES)
        self.dense_fields = _dense_fields(self.fields, row, room)
        self.shared_fields = [name for name in self.fields if name not in self.dense_fields]
        self.dense = nn.ParameterDict()
        for name in self.dense_fields:
            weight = torch.empty(self.fields[name], embedding_dim)
            nn.init.normal_(weight, std=INITIAL_DEVIATION, generator=generator)
            self.dense[name] = nn.Parameter(weight if tables is None else tables[name].clone())
        room -= sum(self.fields[name] for name in self.dense_fields) * row
        self.shared: CompositionalEmbedding | None = None
        if not self.shared_fields:
            self.shared_limit = 0
        elif tables is None:
            self._hash(room, positions, generator)
        else:
            self._learn(room, tables, counts, seed)
        sizes = [self.fields[name] for name in self.shared_fields]
        ends = accumulate(sizes)
        self.offsets = {
            name: end - size
            for name, end, size in zip(self.shared_fields, ends, sizes, strict=True)
        }
        columns = [list(self.fields).index(name) for name in self.shared_fields]
        for name, numbers in (
            ("_columns", columns),
            ("_starts", list(self.offsets.values())),
            ("_sizes", sizes),
        ):
            self.register_buffer(name, torch.tensor(numbers, dtype=torch.long), persistent=False)

    def _hash(
        self,
        room: int,
        positions: npt.NDArray[np.integer[Any]] | None,
        generator: torch.Generator | None,
    ) -> None:
        """Two codebooks for the shared fields, to be pruned to what there is room for."""
        ids = sum(self.fields[name] for name in self.shared_fields)
        self.shared_limit = room
        if self.byte_limit is not None:
            self.shared_limit = _values_of_bytes(room, ids, self.embedding_dim)
        self.shared = CompositionalEmbedding(
            ids,
            self.embedding_dim,
            budget=self.shared_limit,
            positions=positions,
            generator=generator,
        )

    def _learn(
        self,
        room: int,
        tables: Mapping[str, Tensor],
        counts: Mapping[str, npt.NDArray[np.integer[Any]]] | None,
        seed: int,
    ) -> None:
        """Codebooks for the shared fields whose rows are learned from their trained tables."""
        ids = sum(self.fields[name] for name in self.shared_fields)
        layout_of = layout_of_values if self.byte_limit is None else layout_of_bytes
        layout = layout_of(room, ids, self.embedding_dim)
        if layout is None:
            raise BudgetError(
                f"{room:,} {'values' if self.byte_limit is None else 'bytes'} have no room for "
                f"codes of {ids:,} ids; give a larger budget"
            )
        trained = [tables[name].detach().cpu().float().numpy() for name in self.shared_fields]
        counted = None if counts is None else [counts[name] for name in self.shared_fields]
        found = codes_of_fields(trained, counted, layout, seed=seed)
        self.shared_limit = layout.values
        self.shared = CompositionalEmbedding(
            ids, self.embedding_dim, codes=found.codes, buckets=layout.rows
        )
        self.shared.weight.data.copy_(torch.from_numpy(found.books))
        if layout.groups > 1:
            self.shared.restrict(torch.from_numpy(found.mask))

    @property
    def _own_values(self) -> int:
        """Values of the fields that are stored whole."""
        return sum(self.fields[name] for name in self.dense_fields) * self.embedding_dim

    @property
    def limit(self) -> int:
        """Values that may be stored."""
        return self.shared_limit + self._own_values

    @property
    def nnz(self) -> int:
        """How many values are stored."""
        return self._own_values + (0 if self.shared is None else self.shared.nnz)

    @property
    def stored_bytes(self) -> int:
        """Values in a byte each, a scale for each row, and the bits of codes and of masks."""
        own = self._own_values
        own += SCALE_BYTES * sum(self.fields[name] for name in self.dense_fields)
        if self.shared is None:
            return own
        rows, ids = self.shared.num_rows, self.shared.num_embeddings
        bits = ids * self._code_bits()
        if self.shared.codes is None:
            bits += self.shared.weight.numel()
        return own + self.shared.nnz + SCALE_BYTES * rows + math.ceil(bits / 8)

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
        ids = checked_ids(ids)
        parts = {
            name: F.embedding(ids[..., place], self.dense[name])
            for place, name in enumerate(self.fields)
            if name in self.dense
        }
        if self.shared is not None:
            own = ids.index_select(-1, self._columns)
            found = self.shared(_offset(own, self._starts, self._sizes))
            parts |= dict(zip(self.shared_fields, found.unbind(-2), strict=True))
        return torch.stack([parts[name] for name in self.fields], dim=-2)

    def pruner(self, steps: int, *, dense_share: float = 0.0, rewind: bool = False) -> Pruner:
        """What prunes the shared table to its part of the budget; thresholds begin here."""
        if self.shared is None:
            raise ConfigError("all fields are stored whole within the budget; nothing is pruned")
        if self.shared.codes is not None:
            raise ConfigError(
                "rows that are learned from tables are within the budget already; train on"
            )
        return Pruner(
            [self.shared], self.shared_limit, steps, dense_share=dense_share, rewind=rewind
        )

    @torch.no_grad()
    def report(self) -> list[FieldReport]:
        """What each field got."""
        found = []
        for name, size in self.fields.items():
            is_dense = name in self.dense
            average = float(self.embedding_dim) if is_dense else self._average(name, size)
            bits = 0 if is_dense else self._code_bits()
            found.append(FieldReport(name, size, is_dense, average, bits))
        return found

    def _average(self, name: str, size: int) -> float:
        """Places at which the vectors of a shared field have a stored value."""
        assert self.shared is not None
        ids = torch.arange(size, device=self.shared.weight.device) + self.offsets[name]
        kept = self.shared.stored_mask()
        places = torch.zeros(size, self.embedding_dim, dtype=torch.bool, device=kept.device)
        for own in self.shared.rows_of(ids):
            places |= kept[own]
        return float(places.sum()) / size

    def _code_bits(self) -> int:
        """Of an id of a shared field."""
        assert self.shared is not None
        if self.shared.codes is None:
            return 0
        return sum((rows - 1).bit_length() for rows in self.shared.book_rows)

    def _field(self, name: str, ids: Tensor) -> Tensor:
        ids = checked_ids(ids)
        if name in self.dense:
            return F.embedding(ids, self.dense[name])
        assert self.shared is not None
        vectors: Tensor = self.shared(_offset(ids, self.offsets[name], self.fields[name]))
        return vectors


def _offset(ids: Tensor, start: Tensor | int, size: Tensor | int) -> Tensor:
    """Places in the shared table. Beyond its own ids are those of another field: -1 is refused."""
    return torch.where((ids >= 0) & (ids < size), ids + start, -1)


def _check_parts(
    parts: Mapping[str, Any] | None, fields: Mapping[str, int], what: str, shape: tuple[int, ...]
) -> None:
    """Refuse what is not there, or of another size, for a field."""
    for name, size in fields.items() if parts is not None else ():
        assert parts is not None
        if name not in parts:
            raise DataError(f"field {name!r} has no {what}; give one for each field")
        if tuple(parts[name].shape) != (size, *shape):
            raise DataError(
                f"the {what} of field {name!r} has the shape {tuple(parts[name].shape)}, not "
                f"{(size, *shape)}"
            )


def _dense_fields(fields: Mapping[str, int], row: int, room: int) -> list[str]:
    """The smallest fields that a tenth of the budget has room for; all, if the budget has."""
    if sum(fields.values()) * row <= room:
        return list(fields)
    chosen: list[str] = []
    taken = 0
    for name, size in sorted(fields.items(), key=lambda entry: entry[1]):
        taken += size * row
        if taken > DENSE_SHARE * room:
            break
        chosen.append(name)
    if room - sum(fields[name] for name in chosen) * row < 2:
        raise BudgetError(f"a budget of {room:,} values leaves nothing to the larger fields")
    return [name for name in fields if name in chosen]


def _values_of_bytes(size: int, ids: int, dim: int) -> int:
    """Values that a pruned hash table may keep: a byte each, beside scales and bits of the mask."""
    values = min(size, ids * dim)
    while values >= 2:
        rows = sum(Hash("balanced", ids, bucket_count(values, ids, dim)).rows)
        left = size - SCALE_BYTES * rows - math.ceil(rows * dim / 8)
        if values <= left:
            return values
        values = min(values * 99 // 100, values - 1)
    raise BudgetError(
        f"{size:,} bytes have no room for the table of {ids:,} ids; give a larger budget"
    )
