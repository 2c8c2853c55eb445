"""UD, uniform dimensions: one small dense table, as wide as the budget allows."""

from __future__ import annotations

import torch

from cerp.errors import BudgetError
from cerp.methods.made_to_fit import MadeToFit
from cerp.models.embeddings.full import FullEmbedding


class UniformEmbedding(FullEmbedding):
    """``e_k = E[k]`` with E of N x d' values, ``d' = ⌊t / N⌋``.

    The vectors have d' entries, and so has what a backbone gets to see: nothing
    is padded to d. The authors of CERP let the MLP's hidden layers shrink with
    d'; here they stay those of the full dimension, for every method alike (see
    `cerp.models.backbones.mlp.hidden_widths`), so that a short vector is all that UD
    has to pay.
    """

    @classmethod
    def for_limit(
        cls,
        num_embeddings: int,
        embedding_dim: int,
        limit: int,
        *,
        padding_idx: int | None = None,
        generator: torch.Generator | None = None,
    ) -> UniformEmbedding:
        """The widest table of at most ``limit`` values, and no wider than ``embedding_dim``."""
        width = min(limit // num_embeddings, embedding_dim)
        if width < 1:
            raise BudgetError(
                f"a budget of {limit:,} values is too small for UD: with one value for each "
                f"entity the smallest possible budget is {num_embeddings:,}"
            )
        return cls(num_embeddings, width, padding_idx, generator=generator)


class Ud(MadeToFit):
    """A narrow table."""

    embedding_class = UniformEmbedding
