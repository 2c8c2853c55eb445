"""Where the vectors of fields come from: the full table, and the rivals of CERP at a budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cerp.assignment.hashing import Hash, smallest_bucket_count
from cerp.choices import Hashing
from cerp.errors import BudgetError
from cerp.methods.pep import PrunableTable
from cerp.nn import CompositionalEmbedding

START = 0.05
"""Deviation of first values."""
KIND: Hashing = "quotient-remainder"


class OneTable(nn.Module):
    """All fields in one table of offset ids: (B, fields) ids to (B, fields, width) vectors."""

    table: Any
    starts: Tensor
    places: Tensor | None

    def __init__(
        self, fields: Mapping[str, int], table: nn.Module, places: Tensor | None = None
    ) -> None:
        super().__init__()
        self.fields, self.table = dict(fields), table
        sizes = torch.tensor(list(fields.values()))
        self.register_buffer("starts", sizes.cumsum(0) - sizes)
        self.register_buffer("places", places)
        self.width = int(table.weight.shape[1])
        nn.init.normal_(table.weight, std=START)

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of rows of ids."""
        ids = ids + self.starts
        vectors: Tensor = self.table(ids if self.places is None else self.places[ids])
        return vectors

    def by_field(self) -> dict[str, Tensor]:
        """The table of each field, as it is trained."""
        parts = self.table.weight.detach().split(list(self.fields.values()))
        return dict(zip(self.fields, parts, strict=True))

    @property
    def nnz(self) -> int:
        """How many values are stored."""
        return int(getattr(self.table, "nnz", self.table.weight.numel()))

    @property
    def float_bytes(self) -> int:
        """Values in float32, and a bit for each that may be missing."""
        is_pruned = getattr(self.table, "mask", None) is not None
        return 4 * self.nnz + (self.table.weight.numel() // 8 if is_pruned else 0)


def full(fields: Mapping[str, int], dim: int) -> OneTable:
    """A vector for each id."""
    return OneTable(fields, nn.Embedding(sum(fields.values()), dim))


def uniform(fields: Mapping[str, int], dim: int, limit: int) -> OneTable:
    """UD: a narrower vector for each id."""
    return full(fields, _width(limit, sum(fields.values()), dim))


def hashed(fields: Mapping[str, int], dim: int, limit: int) -> OneTable:
    """``E[h(k)]``: fewer rows than ids, and ids of one row alike."""
    rows = max(limit // dim, 1)
    mixed = torch.randperm(sum(fields.values()), generator=torch.Generator().manual_seed(0))
    return OneTable(fields, nn.Embedding(rows, dim), mixed % rows)


def quotient_remainder(fields: Mapping[str, int], dim: int, limit: int) -> OneTable:
    """QR: ``P[k mod b] + Q[k div b]``, narrower where the rows that it needs are too many."""
    ids = sum(fields.values())
    fewest = smallest_bucket_count(ids)
    width = _width(limit, 2 * fewest, dim)
    buckets = max(limit // (2 * width), fewest)
    while buckets > fewest and sum(Hash(KIND, ids, buckets).rows) * width > limit:
        buckets -= 1
    table = CompositionalEmbedding(ids, width, buckets=buckets, hash_name=KIND)
    return OneTable(fields, table)


def prunable(fields: Mapping[str, int], dim: int) -> OneTable:
    """PEP: the full table, to be pruned by learned thresholds."""
    return OneTable(fields, PrunableTable(sum(fields.values()), dim))


def rounded(table: OneTable, bits: int) -> tuple[OneTable, int]:
    """The trained table in integers of 8, 4 or 2 bits with a scale of 16 for each row; bytes."""
    weight = table.table.weight.detach()
    steps = 2 ** (bits - 1) - 0.5
    scale = weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / steps
    copy = OneTable(table.fields, nn.Embedding(*weight.shape))
    grid = (weight / scale).sub(0.5).round().clamp(-steps - 0.5, steps - 0.5).add(0.5)
    copy.table.weight.data.copy_(grid * scale)
    return copy, weight.numel() * bits // 8 + 2 * len(weight)


def _width(limit: int, rows: int, dim: int) -> int:
    width = min(limit // rows, dim)
    if width < 1:
        raise BudgetError(f"{limit:,} values are less than one for each of {rows:,} rows")
    return width
