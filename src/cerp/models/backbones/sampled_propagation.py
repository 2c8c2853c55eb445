"""LightGCN's propagation for graphs that are too large to be gone through in every step.

With the degrees D and the random walk ``W = D^-1 A``, which replaces every row by the mean of its
neighbours, ``Â = D^½ W D^-½``. So the vector of one entity n,

    z_n = √d_n / (L+1) · u_n    with    u = Σ_{l=0..L} W^l D^-½ E = x + W (x + W (x + ...)),

is what a tree of neighbours adds up to: an entity's own ``x_k = e_k / √d_k``, and the mean of what
its neighbours come to. A step grows such a tree from each user and each item of its batch, with
some neighbours of each in place of all. Each mean is that of all in expectation and trees are drawn
independently of each other, so the same holds of z_n, and of the product of two of them.

Trees are drawn by hashes of the row of the batch that they stand in: no generator has a state, so a
resumed run, or one of several processes, grows the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from cerp.models.backbones.base import BatchOutput, gathered
from cerp.models.backbones.neighbourhoods import GOLDEN, Neighbourhoods
from cerp.models.embeddings.base import Embedding
from cerp.models.embeddings.row_sums import is_fast, sums_of_rows, weighted_sums_of_rows
from cerp.models.random_words import mixed

BLOCK_BYTES = 1 << 29
"""Of a table that `InBlocks` has of some columns of all entities: three are there at once."""
LEAST_COLUMNS = 4
"""That are propagated together however many entities there are."""


def sampled_output(
    neighbourhoods: Neighbourhoods,
    embedding: Embedding,
    users: Tensor,
    items: Tensor,
    most: Sequence[int],
) -> BatchOutput:
    """Scores of a training batch: user codes (B,) against item codes (B, m).

    ``most`` has for each layer how many neighbours of an entity are looked at.
    """
    roots = torch.cat([users, items.flatten() + neighbourhoods.num_users])
    final, own = sampled_vectors(neighbourhoods, embedding, roots, keys_of(users, items), most)
    of_users, of_items = torch.split(final, [len(users), items.numel()])
    scores = torch.einsum("bd,bmd->bm", of_users, of_items.view(*items.shape, -1))
    return BatchOutput(scores, partial(gathered, users, own))


def keys_of(users: Tensor, items: Tensor) -> Tensor:
    """A word for each user and each item of a batch, (B + B·m,), from its row of it alone."""
    key = mixed(users)
    for column in items.unbind(1):
        key = mixed(key ^ column)
    places = torch.arange(1, items.shape[1] + 1, device=items.device)
    return torch.cat([mixed(key), mixed(key[:, None] + places * GOLDEN).flatten()])


def sampled_vectors(
    neighbourhoods: Neighbourhoods,
    embedding: Embedding,
    roots: Tensor,
    keys: Tensor,
    most: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Final vectors of entities by one tree each, and their embedding vectors.

    The trees have a layer for each of ``most``. On a CPU vectors that are sums of rows are not made
    one by one: the rows of a whole tree are added up.
    """
    entities, places, shares = _trees(neighbourhoods, roots, keys, most)
    chosen = embedding.chosen_rows() if roots.device.type == "cpu" else None
    if chosen is not None and is_fast(weight := chosen.weight()):
        rows = chosen.of(entities)
        final = weighted_sums_of_rows(weight, rows, shares.to(weight.dtype), places, len(roots))
        return final, sums_of_rows(weight, rows[: len(roots)])
    vectors = embedding(entities)
    each = vectors * shares.to(vectors.dtype)[:, None]
    final = torch.zeros_like(each[: len(roots)]).index_add(0, places, each)
    return final, vectors[: len(roots)]


class _Trees(NamedTuple):
    """The entities of some trees, roots first, then the first layer of all trees, and so on."""

    entities: Tensor
    places: Tensor
    """In the tree of which root each stands."""
    shares: Tensor
    """What each vector is multiplied by before those of a tree are added up."""


def _trees(
    neighbourhoods: Neighbourhoods, roots: Tensor, keys: Tensor, most: Sequence[int]
) -> _Trees:
    entities, places = roots, torch.arange(len(roots), device=roots.device)
    shares = neighbourhoods.degrees(roots).clamp_(min=1).double().sqrt_() / (len(most) + 1)
    parts = []
    for fanout in most:
        chosen = neighbourhoods.chosen(entities, keys, fanout)
        parts.append((entities, places, shares, chosen.degrees))
        places, shares = places[chosen.parents], (shares / chosen.counts)[chosen.parents]
        entities, keys = chosen.entities, chosen.keys
    parts.append((entities, places, shares, neighbourhoods.degrees(entities)))
    entities, places, shares, degrees = (torch.cat(part) for part in zip(*parts, strict=True))
    return _Trees(entities, places, shares / degrees.clamp_(min=1).double().sqrt_())


class InBlocks:
    """Exact final vectors, with the graph gone through a few columns at a time.

    Kept are the final vectors of items, and what users need of them: the tables ``u`` of items
    after one layer less. A user's vector is made when the user is scored.
    """

    def __init__(self, neighbourhoods: Neighbourhoods, embedding: Embedding, layers: int) -> None:
        self.graph, self.embedding, self.layers = neighbourhoods, embedding, layers
        dim, self._any = embedding.embedding_dim, next(embedding.parameters()).detach()
        shape = neighbourhoods.num_items, dim
        self.item_vectors, self._below = self._any.new_empty(shape), self._any.new_empty(shape)
        self._sums: tuple[Tensor, Tensor] | None = None
        chosen = embedding.chosen_rows()
        if chosen is not None and is_fast(weight := chosen.weight().detach()):
            every = _stretches(0, neighbourhoods.num_entities)
            # Once for all columns: finding them takes longer than adding them up.
            rows = torch.cat([chosen.of(self._entities(some)).int() for some in every])
            self._sums = weight, rows
        fitting = BLOCK_BYTES // (4 * max(neighbourhoods.num_entities, 1))
        for first in range(0, dim, max(fitting, LEAST_COLUMNS)):
            self._propagate(slice(first, min(first + max(fitting, LEAST_COLUMNS), dim)))
        self._sums = None

    @torch.no_grad()
    def user_vectors(self, users: Tensor) -> Tensor:
        """Final vectors of some users."""
        all_of_them = self.graph.num_items
        chosen = self.graph.chosen(users, users, all_of_them)
        rows = self._below[chosen.entities - self.graph.num_users]
        own, roots = self.embedding(users), self._roots(users)
        sums = torch.zeros_like(own).index_add_(0, chosen.parents, rows.to(own.dtype))
        found: Tensor = own / roots + sums / chosen.counts.clamp(min=1)[:, None]
        return found * roots / (self.layers + 1)

    def _roots(self, entities: Tensor | slice) -> Tensor:
        """``√d`` of some entities, as a column; 1 where there are no neighbours."""
        return self.graph.degrees(entities).clamp_(min=1).to(self._any.dtype).sqrt_()[:, None]

    @torch.no_grad()
    def _propagate(self, columns: slice) -> None:
        """Some columns of what is kept."""
        users, entities = self.graph.num_users, self.graph.num_entities
        own_users = self._starts(0, users, columns)
        own_items = self._starts(users, entities, columns)
        of_users, of_items = own_users, own_items
        for layer in range(self.layers):
            if layer == self.layers - 1:
                self._below[:, columns] = of_items
            before = of_users
            if layer < self.layers - 1:  # nobody asks for the last of users
                of_users = self.graph.means(of_items, 0, users).add_(own_users)
            of_items = self.graph.means(before, users, entities).add_(own_items)
        for some in _stretches(users, entities):
            roots = self._roots(some)
            rows = slice(some.start - users, some.stop - users)
            self.item_vectors[rows, columns] = of_items[rows] * roots / (self.layers + 1)

    def _starts(self, first: int, last: int, columns: slice) -> Tensor:
        """``D^-½ E`` of entities from one up to another, in some columns."""
        table = self._any.new_empty(last - first, columns.stop - columns.start)
        weight = None if self._sums is None else self._sums[0][:, columns].contiguous()
        for some in _stretches(first, last):
            if self._sums is None or weight is None:
                found = self.embedding(self._entities(some))[:, columns]
            else:
                found = sums_of_rows(weight, self._sums[1][some])
            table[some.start - first : some.stop - first] = found / self._roots(some)
        return table

    def _entities(self, some: slice) -> Tensor:
        return torch.arange(some.start, some.stop, device=self._any.device)


def _stretches(first: int, last: int, rows: int = 1 << 16) -> list[slice]:
    """From one entity up to another, a cache's worth at a time."""
    return [slice(start, min(start + rows, last)) for start in range(first, last, rows)]
