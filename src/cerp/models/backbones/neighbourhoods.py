"""Who took what, from both sides, for graphs that are looked at in parts.

An entity's neighbours are a stretch of one array: 4 bytes an edge and direction, and 8 an entity.
Nothing is sorted into an order of its own, no weights are kept, and no table of all entities is
made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from scipy.sparse import _sparsetools
from torch import Tensor, nn

from cerp.data.interactions import Interactions
from cerp.models.random_words import mixed, unit

GOLDEN = -0x61C8864680B583EB
"""2^64 over the golden ratio as a signed integer: words that are so far apart mix well."""


ROWS_AT_ONCE = 1 << 20
"""Entities whose sums are made together: small beside all of them."""


class Chosen(NamedTuple):
    """Neighbours of some entities, those of one entity behind those of another."""

    entities: Tensor
    """(m,): the neighbours."""
    parents: Tensor
    """(m,): of which of the given entities each is a neighbour, by place."""
    counts: Tensor
    """(n,): how many each of the given entities has here."""
    degrees: Tensor
    """(n,): how many neighbours it has in all."""
    keys: Tensor
    """(m,): a word for each, from which its own neighbours are chosen."""


class Neighbourhoods(nn.Module):
    """The neighbours of every entity, users first, then items, ascending."""

    offsets: Tensor
    """(entities + 1,)"""
    columns: Tensor
    """Of each edge from both of its ends: the code of the user or the item at the other."""

    def __init__(self, train: Interactions) -> None:
        super().__init__()
        self.num_users, self.num_items = train.num_users, train.num_items
        edges = len(train)
        kind = np.int32 if edges <= np.iinfo(np.int32).max else np.int64
        offsets = np.empty(self.num_users + self.num_items + 1, dtype=np.int64)
        offsets[: self.num_users + 1] = train.user_offsets
        np.cumsum(train.item_counts, out=offsets[self.num_users + 1 :])
        offsets[self.num_users + 1 :] += edges
        columns = np.empty(2 * edges, dtype=np.int32)
        columns[:edges] = train.item
        # By counting, in SciPy; what it counts with and moves besides is read by nobody.
        taken = np.empty(edges, dtype=kind)
        values = np.empty(edges, dtype=np.int8)
        _sparsetools.csr_tocsc(
            *(self.num_users, self.num_items),
            *(train.user_offsets.astype(kind), train.item.astype(kind, copy=False), values),
            *(np.empty(self.num_items + 1, dtype=kind), taken, np.empty_like(values)),
        )
        columns[edges:] = taken
        self.register_buffer("offsets", torch.from_numpy(offsets), persistent=False)
        self.register_buffer("columns", torch.from_numpy(columns), persistent=False)

    def __deepcopy__(self, memo: object) -> Neighbourhoods:
        """Itself: nobody writes to it, and it is large."""
        return self

    @property
    def num_entities(self) -> int:
        """Users and items."""
        return self.num_users + self.num_items

    def degrees(self, entities: Tensor | slice) -> Tensor:
        """How many neighbours some entities have, or those from one up to another."""
        if isinstance(entities, slice):
            return self.offsets[entities.start : entities.stop + 1].diff()
        return self._stretches(entities)[1]

    def _stretches(self, entities: Tensor) -> tuple[Tensor, Tensor]:
        """Where the neighbours of some entities begin, and how many they are."""
        starts = self.offsets[entities]
        return starts, self.offsets[entities + 1] - starts

    def chosen(self, entities: Tensor, keys: Tensor, most: int) -> Chosen:
        """Of each entity all neighbours, or, where it has more than ``most``, so many of them.

        With d neighbours in a row, one is taken at random from each of ``most`` stretches of the
        length d / most: every neighbour is there 1 / d of the time in each place, so that the mean
        of what is chosen is that of all in expectation. What is random is a hash of the entity's
        key and the place: the same key has the same neighbours, whoever asks, and when.
        """
        starts, degrees = self._stretches(entities)
        counts = degrees.clamp(max=most)
        parents = torch.arange(len(entities), device=entities.device).repeat_interleave(counts)
        firsts = counts.cumsum(0) - counts
        places = torch.arange(len(parents), device=entities.device) - firsts[parents]
        own = mixed(keys[parents] + (places + 1) * GOLDEN)
        degree, count = degrees[parents], counts[parents]
        drawn = ((places + unit(own)) * (degree / count)).long()
        drawn = torch.minimum(drawn, degree - 1)  # rounding may lead past the end
        at = torch.where(count == degree, places, drawn) + starts[parents]
        found = self.columns[at].long()
        found += torch.where(entities < self.num_users, self.num_users, 0)[parents]
        return Chosen(found, parents, counts, degrees, own)

    def means(self, table: Tensor, first: int, last: int) -> Tensor:
        """For entities of one side, from ``first`` up to ``last``, the mean of neighbours' rows.

        The table has a row for each entity of the other side. Without neighbours there are zeros.
        """
        found = table.new_empty(last - first, table.shape[1])
        for start in range(first, last, ROWS_AT_ONCE):
            end = min(start + ROWS_AT_ONCE, last)
            offsets = self.offsets[start : end + 1]
            columns = self.columns[offsets[0] : offsets[-1]]
            own = (offsets - offsets[0]).to(columns.dtype)
            sums = F.embedding_bag(columns, table, own, mode="sum", include_last_offset=True)
            counts = offsets.diff().clamp_(min=1).to(table.dtype)
            torch.div(sums, counts[:, None], out=found[start - first : end - first])
        return found
