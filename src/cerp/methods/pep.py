"""PEP: learned thresholds prune a full table, and the survivors are trained again."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from cerp.assignment.index import Index
from cerp.choices import Rewind
from cerp.config import PruneConfig
from cerp.methods.base import Context
from cerp.methods.pruned import Pruned
from cerp.models.embeddings.base import Stored, StoredTable
from cerp.models.embeddings.prunable import PrunableEmbedding


class PrunableTable(PrunableEmbedding):
    """``e_k = V̂[k]`` with ``V̂ = sign(V)·relu(|V| − σ(S))``, N x d entries.

    PEP's way (Liu et al., ICLR 2021): `start_pruning`, train V and S on the
    task's loss alone, keep the survivors at each budget, and retrain them from
    the first values of V under the mask (`rewind`), without thresholds and with
    a fresh backbone. There is no penalty: what raises S is its clock (see
    `cerp.pruning.clocks`).

    Without thresholds, `project` keeps the entries with the largest |V|:
    magnitude pruning. `cerp.methods.optembed.supernet` ends in such a table, too.

    Where we differ: the authors' code takes the first state with at most t
    non-zero values, some below t; here the mask is the top t entries by
    |V| − σ(S), exactly t. Thresholds are element-wise, the finest of the
    authors' choices and the one that CERP is compared with. Their S starts at
    -15 or -150 and moves by Adam's coupled decay, by an amount per step; here
    the clock is told in how many epochs to arrive.
    """

    capturable = True

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx)
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Xavier-uniform values; zeros for the padding."""
        nn.init.xavier_uniform_(self.weight, generator=generator)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ids: shape (*,) to (*, embedding_dim)."""
        return self._zero_padding(self.effective_rows(ids), ids)

    def table(self) -> Tensor:
        """The vectors of all ids, (num_embeddings, embedding_dim)."""
        return self._zero_padding(self.effective_weight())

    def stored(self) -> Stored:
        """The table, with what is left of it."""
        return Stored((StoredTable(self.weight, Index("identity"), self.mask),))

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return f"{self.num_embeddings}, {self.embedding_dim}, {self.state}"


class Pep(Pruned):
    """A full table with learned thresholds, retrained from its first values (ICLR 2021)."""

    def fresh(self, context: Context) -> PrunableTable:
        """The full table."""
        return PrunableTable(
            context.splits.num_entities, context.config.dim, generator=context.generator()
        )

    def pruning(self, context: Context) -> PruneConfig:
        """On the task's loss alone."""
        return replace(context.config.prune, gamma=0.0)

    def rewind(self, context: Context) -> Rewind:
        """Always the first values."""
        return "initial"
