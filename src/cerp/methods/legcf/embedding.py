"""LEGCF's embedding: weighted sums of a few vectors, propagated over a graph that holds both."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)
from torch import Tensor, nn

from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.models.embeddings.base import Embedding

LAYERS, CHOICES, OWN_WEIGHT = 3, 2, 0.9
AT_ONCE = 1 << 14
"""Entities whose weights are computed together."""


class ExpandedEmbedding(Embedding):
    """``e_k`` is row k of ``H = mean_{l ≤ L} G^l [tanh(S M); M]`` (Liang et al., SIGIR 2024).

    M has c vectors and S, N x c, τ weights in each row, which carry no gradient. G is
    ``[[Â, S], [Sᵀ, 0]]``, normalised by its degrees, with the normalised training graph Â: the c
    vectors are nodes of the graph, too. At first an entity has the weight 0.9 for the vector of its
    cluster and the rest for others that are drawn; `refresh` chooses them anew.

    ``c d + τ N`` values count; with τ = 1 all weights are 1, and only ``c d`` do. Which vectors an
    entity has is free, as codes are everywhere.
    """

    assigned: Tensor
    weights: Tensor
    edges: Tensor

    def __init__(
        self,
        train: Interactions,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        clusters: npt.NDArray[np.integer],
        rows: int,
        choices: int = CHOICES,
        own_weight: float = OWN_WEIGHT,
        layers: int = LAYERS,
        generator: torch.Generator | None = None,
    ) -> None:
        count = train.num_users + train.num_items
        super().__init__(count, embedding_dim, padding_idx)
        if not 1 <= choices <= rows or not 0 < own_weight <= 1 or layers < 0:
            raise ConfigError(
                f"LEGCF needs 1 <= choices <= {rows} rows, 0 < own_weight <= 1 and layers >= 0, "
                f"got {choices}, {own_weight} and {layers}"
            )
        self.layers, self.choices = layers, choices
        self.meta = nn.Parameter(torch.empty(rows, embedding_dim))
        nn.init.normal_(self.meta, generator=generator)
        own = torch.from_numpy(np.array(clusters, dtype=np.int64))[:, None]
        # Others than the own one, in a circle of the rest from a place that is drawn.
        drawn = torch.randint(max(rows - 1, 1), (count, 1), generator=generator)
        others = (own + 1 + (drawn + torch.arange(choices - 1)) % max(rows - 1, 1)) % rows
        self.register_buffer("assigned", torch.cat([own, others], dim=1))
        first = own_weight if choices > 1 else 1.0
        weights = torch.full((count, choices), (1 - first) / max(choices - 1, 1))
        weights[:, 0] = first
        self.register_buffer("weights", weights)
        pairs = np.stack([train.user, train.item + np.int64(train.num_users)]).astype(np.int64)
        self.register_buffer("edges", torch.from_numpy(pairs), persistent=False)
        self._graph: Tensor | None = None

    def sums(self) -> Tensor:
        """``tanh(S M)``, (num_embeddings, embedding_dim)."""
        rows = F.embedding(self.assigned, self.meta)
        return torch.tanh((self.weights[..., None].to(rows.dtype) * rows).sum(dim=1))

    def graph(self) -> Tensor:
        """G as a sparse matrix of (N + c) rows and columns."""
        kept, meta = self._graph, self.meta
        if kept is None or (kept.dtype, kept.device) != (meta.dtype, meta.device):
            self._graph = self._expanded()
        assert self._graph is not None
        return self._graph

    def propagated(self) -> tuple[Tensor, Tensor]:
        """H of the entities, and of the c vectors."""
        graph = self.graph()
        vectors = torch.cat([self.sums(), self.meta])
        total = vectors
        for _ in range(self.layers):
            vectors = torch.sparse.mm(graph, vectors)
            total = total + vectors
        total = total / (self.layers + 1)
        return total[: self.num_embeddings], total[self.num_embeddings :]

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        return self._zero_padding(F.embedding(ids, self.propagated()[0]), ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        return self._zero_padding(self.propagated()[0])

    @property
    def nnz(self) -> int:
        """``c d``, and the weights where there is more than one in a row."""
        return self.meta.numel() + (self.weights.numel() if self.choices > 1 else 0)

    @torch.no_grad()
    def refresh(self) -> None:
        """``S ← the τ largest of each row of H_E H_M⁺``, where these are above 0."""
        entities, vectors = self.propagated()
        assigned, weights = largest_weights(entities, vectors, self.choices)
        found = weights[:, 0] > 0
        if self.choices == 1:
            weights = torch.ones_like(weights)
        self.assigned[found] = assigned[found]
        self.weights[found] = weights[found].to(self.weights.dtype)
        self._graph = None

    def _expanded(self) -> Tensor:
        count, rows = self.num_embeddings, len(self.meta)
        device, dtype = self.meta.device, self.meta.dtype
        users, items = self.edges
        degrees = torch.bincount(self.edges.flatten(), minlength=count).to(dtype)
        among = (degrees[users] * degrees[items]).rsqrt()
        entities = torch.arange(count, device=device).repeat_interleave(self.choices)
        places = torch.stack(
            [
                torch.cat([users, entities]),
                torch.cat([items, count + self.assigned.flatten()]),
            ]
        )
        values = torch.cat([among, self.weights.flatten().to(dtype)])
        places = torch.cat([places, places.flip(0)], dim=1)
        values = torch.cat([values, values])
        total = torch.zeros(count + rows, dtype=dtype, device=device)
        total.index_add_(0, places[0], values)
        scale = torch.where(total > 0, total, 1.0).rsqrt()
        values = values * scale[places[0]] * scale[places[1]]
        size = (count + rows, count + rows)
        return torch.sparse_coo_tensor(places, values, size, check_invariants=True).coalesce()

    def _load_from_state_dict(self, *arguments: Any) -> None:
        self._graph = None
        super()._load_from_state_dict(*arguments)


def largest_weights(entities: Tensor, vectors: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest of the weights that rebuild each entity from some vectors: places and values.

    ``W = H_E H_M⁺`` is exact where the vectors are independent; values below 0 become 0, since
    weights are edges of a graph that is normalised by its degrees.
    """
    inverse = torch.linalg.pinv(vectors)
    found = [(part @ inverse).topk(count, dim=1) for part in torch.split(entities, AT_ONCE)]
    places = torch.cat([one.indices for one in found])
    return places, torch.cat([one.values for one in found]).clamp(min=0)
