"""LightGCN: vectors averaged over neighbourhoods of the training graph."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.models.backbones.base import Backbone, BatchOutput, BatchVectors, DotScorer, gathered
from cerp.models.backbones.dense_propagation import DensePropagation, DenseRule
from cerp.models.backbones.half_propagation import half_pair_scores
from cerp.models.backbones.half_sums import HalfSums
from cerp.models.backbones.neighbourhoods import Neighbourhoods
from cerp.models.backbones.propagation import CPU_COLUMN_BLOCK, Graph
from cerp.models.backbones.sampled_propagation import InBlocks, sampled_output
from cerp.models.backbones.sum_penalty import penalty_of_sums
from cerp.models.embeddings.base import Embedding, SumsOfRows
from cerp.models.embeddings.composition import Composition

MOST_VALUES = 1 << 28
"""Of the table of all vectors, a gigabyte in float32: steps on larger graphs look at some
neighbours only, unless they are told otherwise."""
MOST_PAIRS = 1 << 26
"""The same of training pairs: putting the whole graph in order takes some 60 bytes of each."""
NEIGHBOURS = 8
"""At which they look then."""


def suited_neighbours(train: Interactions, dim: int) -> int:
    """At how many neighbours a step looks unless it is told; 0: at the whole graph."""
    values = (train.num_users + train.num_items) * dim
    return NEIGHBOURS if values > MOST_VALUES or len(train) > MOST_PAIRS else 0


class LightGCN(Backbone):
    """``score(u, i) = ⟨z_u, z_i⟩`` with ``Z = 1/(L+1) · Σ_{l=0..L} Â^l E`` (He et al., SIGIR 2020).

    Â is the normalised adjacency of the training interactions, without
    self-loops (see `Graph`). No weights of its own.

    On a GPU, where vectors are sums of rows and there is memory for it, a training step has a
    dense matrix in the place of propagation (see `cerp.models.backbones.dense_propagation`).

    Where the table of all vectors has more than `MOST_VALUES` numbers, where there are more than
    `MOST_PAIRS`, or where ``neighbours`` says so, a training step looks at some neighbours of each
    entity in place of the whole graph: at so many of those in the batch, and from each of them
    along one path (see `cerp.models.backbones.sampled_propagation`). 0: the whole graph, however
    large it is. Judged and shipped is always what the whole graph says.
    """

    capturable = True
    needs_graph = True
    head = "dot"
    dense_on: ClassVar[str] = "cuda"
    """The kind of device on which a dense matrix may take the place of propagation."""

    def __init__(
        self,
        train: Interactions,
        *,
        embedding_dim: int,
        generator: torch.Generator | None = None,
        layers: int = 4,
        neighbours: int | None = None,
    ) -> None:
        super().__init__(train, embedding_dim=embedding_dim)
        if layers < 1:
            raise ConfigError(
                f"LightGCN needs at least 1 layer, got {layers}; without propagation it is 'mf'"
            )
        if neighbours is not None and neighbours < 0:
            raise ConfigError(
                f"neighbours={neighbours}: LightGCN looks at 1 or more of each entity, or with "
                "neighbours=0 at the whole graph"
            )
        self.layers = layers
        if neighbours is None:
            neighbours = suited_neighbours(train, embedding_dim)
        self.neighbours = neighbours
        self._dense: tuple[Composition, DensePropagation | None] | None = None
        self._half: HalfSums | None = None
        if neighbours:
            self.neighbourhoods = Neighbourhoods(train)
            self.capturable = False  # how large trees are is not known before
            return
        self.graph = Graph(train)

    def forward(self, embedding: Embedding, users: Tensor, items: Tensor) -> BatchOutput:
        """Scores of a training batch: user codes (B,) against item codes (B, m)."""
        if self.neighbours:
            most = [self.neighbours] + [1] * (self.layers - 1)
            return sampled_output(self.neighbourhoods, embedding, users, items, most)
        if users.device.type == self.dense_on and (sums := embedding.sums_of_rows()) is not None:
            dense = self._dense_of(sums.composition, users, items)
            if dense is not None:
                return self._dense_output(dense, sums, users, items)
        nodes = self.graph.nodes[users], self.graph.nodes[items + self.num_users]
        if users.device.type == "cpu":
            sums = embedding.sums_of_rows(self.graph.entities)
            if sums is not None and (weight := sums.weight()).dtype == torch.float32:
                return self._half_output(weight, sums.composition, *nodes)
        width = self.embedding_dim if users.is_cuda else CPU_COLUMN_BLOCK
        blocks = embedding.table_blocks(self.graph.entities, width)
        scores = self.graph.pair_scores(blocks, self.layers, *nodes)

        def vectors() -> BatchVectors:
            return BatchVectors(blocks, self._node_counts(scores, *nodes))

        return BatchOutput(scores, vectors)

    def _half_output(
        self, weight: Tensor, composition: Composition, users: Tensor, items: Tensor
    ) -> BatchOutput:
        """On a CPU, of vectors that are sums of rows; users and items are nodes."""
        if self._half is None or self._half.composition is not composition:
            self._half = HalfSums(composition, self.graph.walk)
        scores = half_pair_scores([weight], self._half, self.graph.walk, self.layers, users, items)

        def counts() -> Tensor:
            return self._node_counts(scores, users, items)

        def vectors() -> BatchVectors:
            return BatchVectors((composition.table(weight),), counts())

        def complementary(temperature: float) -> Tensor:
            return penalty_of_sums(weight, composition, counts(), temperature)

        return BatchOutput(scores, vectors, complementary)

    def _dense_of(
        self, composition: Composition, users: Tensor, items: Tensor
    ) -> DensePropagation | None:
        """M of these rows; None where propagation is cheaper, or M too large.

        Decided by the first batch, and kept: a recorded step goes on reading the matrix.
        """
        if self._dense is None or not self._dense[0].is_same(composition):
            self._dense = None  # frees one of other rows first
            rule = DenseRule(
                self.graph,
                self.layers,
                self.embedding_dim,
                composition.num_rows,
                ((len(users), self.num_users), (items.numel(), self.num_items)),
            )
            dense = None
            if rule.chooses_dense(composition.device):
                dense = DensePropagation(self.graph, composition, self.layers, self.num_users)
            self._dense = (composition, dense)
        return self._dense[1]

    def _dense_output(
        self, dense: DensePropagation, sums: SumsOfRows, users: Tensor, items: Tensor
    ) -> BatchOutput:
        weight, composition = sums.weight(), sums.composition
        scores = dense.pair_scores(weight, users, items)

        is_small = 2 * (users.numel() + items.numel()) < self.graph.num_nodes

        def counts() -> Tensor:
            return self._node_counts(scores, users, items + self.num_users)

        def vectors() -> BatchVectors:
            if is_small:
                entities = self.entities(users, items)
                return gathered(users, composition.vectors(weight, entities))
            return BatchVectors((composition.table(weight),), counts())

        def complementary(temperature: float) -> Tensor:
            return penalty_of_sums(weight, composition, counts(), temperature)

        if is_small or not dense.has_kernels(weight.shape[1]):
            return BatchOutput(scores, vectors)
        return BatchOutput(scores, vectors, complementary)

    def __getstate__(self) -> dict[str, Any]:
        """Without what a step reads of the rows: a copy that is trained makes its own."""
        return {**self.__dict__, "_dense": None, "_half": None}

    @torch.no_grad()
    def scorer(self, embedding: Embedding) -> DotScorer:
        """Everything is propagated once."""
        if self.neighbours:
            found = InBlocks(self.neighbourhoods, embedding, self.layers)
            return DotScorer(found.user_vectors, found.item_vectors)
        propagated = self.graph.propagate(embedding.table(), self.layers)
        users, items = torch.split(propagated, [self.num_users, self.num_items])
        return DotScorer(users.__getitem__, items)

    def _node_counts(self, scores: Tensor, users: Tensor, items: Tensor) -> Tensor:
        """1 for each user of the batch, the number of draws for each item, 0 for the rest.

        Of nodes or of entities, whichever users and items are given as.
        """
        counts = scores.new_zeros(self.graph.num_nodes)
        drawn = items.flatten()
        # Sums of ones are exact in any order, so this is reproducible on GPUs too.
        counts.scatter_add_(0, drawn, counts.new_ones(()).expand(len(drawn)))
        return counts.index_fill_(0, users, 1.0)
