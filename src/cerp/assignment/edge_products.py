"""Products with the normalised training graph over its smaller side; needs torch."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor

from cerp.data.ids import Int32Array
from cerp.data.interactions import Interactions

Compressed = tuple[Tensor, Tensor]
"""Where the entries of each row begin (and the end of the last), and the column of each entry."""

STRETCH = 1 << 20
"""Rows that are scaled together."""


@dataclass(frozen=True, eq=False)
class EdgeProducts:
    """Training edges between a short and a long side (whichever of users and items is smaller).

    Both sides are numbered by their places in a sequence of all entities. Edges have no values:
    the normalisation ``Â = (D_long + τ d̄_long)^(-1/2) R (D_short + τ d̄_short)^(-1/2)``, with
    the mean degrees d̄ of the sides, is applied to what they multiply.
    The order of a sum is that of the vendor's sparse product.
    """

    items_are_short: bool
    place: Int32Array
    """Of each entity (users first) within its side."""
    short_of_long: Compressed
    """Each row of the long side, and its neighbours."""
    long_of_short: Compressed
    """Each row of the short side, and its neighbours."""
    damping: float = 0.0
    """τ. Without it the leading vectors are those of small groups that hardly touch the rest."""

    @classmethod
    def of(
        cls, train: Interactions, sequence: Int32Array, device: str, damping: float = 0.0
    ) -> EdgeProducts:
        """Edges of the training part, with sides in the order of the sequence."""
        is_user = sequence < train.num_users
        place = np.empty(len(sequence), dtype=np.int32)
        place[sequence[is_user]] = np.arange(train.num_users, dtype=np.int32)
        place[sequence[~is_user]] = np.arange(train.num_items, dtype=np.int32)
        users = place[: train.num_users][train.user], train.num_users
        items = place[train.num_users :][train.item], train.num_items
        fewer_items = train.num_items <= train.num_users
        long, short = (users, items) if fewer_items else (items, users)
        return cls(
            items_are_short=fewer_items,
            place=place,
            short_of_long=_compressed(*long, *short, device),
            long_of_short=_compressed(*short, *long, device),
            damping=damping,
        )

    @property
    def num_long(self) -> int:
        """Entities of the larger side, with or without edges."""
        return len(self.short_of_long[0]) - 1

    @property
    def num_short(self) -> int:
        """Entities of the smaller side, with or without edges."""
        return len(self.long_of_short[0]) - 1

    def gram(self, block: Tensor) -> Tensor:
        """``Âᵀ Â block``; rows are those of the short side."""
        of_short = self.short_scale(block.dtype)
        middle = sums_of_rows(self.short_of_long, block * of_short)
        for start in range(0, len(middle), STRETCH):  # of all rows they would take as much again
            rows = slice(start, min(start + STRETCH, len(middle)))
            middle[rows] *= inverse_degrees(self.short_of_long, block.dtype, self.damping, rows)
        return sums_of_rows(self.long_of_short, middle).mul_(of_short)

    def short_scale(self, dtype: torch.dtype) -> Tensor:
        """``(d + τ d̄)^(-1/2)`` of the short side, as a column."""
        return inverse_degrees(self.long_of_short, dtype, self.damping).sqrt_()

    def one_way(self) -> EdgeProducts:
        """Without the neighbours of the short side, which `neighbour_sums` does not need."""
        return replace(self, long_of_short=(torch.empty(0), torch.empty(0)))

    def neighbour_sums(self, long: Int32Array, table: Tensor) -> Tensor:
        """Sum of the table's rows over the neighbours of some rows of the long side."""
        offsets, neighbours = self.short_of_long
        chosen = torch.from_numpy(long).to(table.device)
        first = offsets[chosen]
        counts = offsets[chosen + 1] - first
        ends = counts.cumsum(0, dtype=offsets.dtype)
        entries = torch.arange(int(counts.sum()), dtype=offsets.dtype, device=table.device)
        entries += torch.repeat_interleave(first - ends + counts, counts)
        return sums_of_rows((F.pad(ends, (1, 0)), neighbours[entries]), table)


def inverse_degrees(
    matrix: Compressed, dtype: torch.dtype, damping: float = 0.0, rows: slice | None = None
) -> Tensor:
    """``1 / (d + τ d̄)`` of each row, or of some, 0 where it has no entries, as a column."""
    offsets, entries = matrix
    added = damping * len(entries) / (len(offsets) - 1)
    own = offsets if rows is None else offsets[rows.start : rows.stop + 1]
    degree = torch.diff(own).to(dtype)
    has_none = degree == 0
    # In place: a side may have tens of millions of rows.
    return degree.add_(added).reciprocal_().masked_fill_(has_none, 0.0)[:, None]


def sums_of_rows(matrix: Compressed, table: Tensor) -> Tensor:
    """For each row of the matrix the sum of those rows of the table that its entries name."""
    offsets, entries = matrix
    if table.dtype == torch.float32 and not table.is_cuda:  # faster, and needs no values
        return F.embedding_bag(
            entries, table.contiguous(), offsets, mode="sum", include_last_offset=True
        )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR|invariant)", UserWarning)
        ones = table.new_ones(len(entries))
        shape = (len(offsets) - 1, len(table))
        sparse = torch.sparse_csr_tensor(offsets, entries, ones, shape, check_invariants=False)
    return sparse @ table


def _compressed(
    rows: Int32Array, num_rows: int, columns: Int32Array, num_columns: int, device: str
) -> Compressed:
    """Edges sorted by row and then column."""
    key = rows.astype(np.int64)
    key *= num_columns
    key += columns
    key.sort()
    counts = np.bincount(rows, minlength=num_rows)
    index = np.int32 if len(key) <= np.iinfo(np.int32).max else np.int64
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(index)
    key %= num_columns
    return torch.from_numpy(offsets).to(device), torch.from_numpy(key.astype(index)).to(device)
