"""What pruning can add to the loss, by name, as sums over a batch.

A penalty is a function of the batch's vectors and the temperature η, and one
decorator here or an entry point in the group ``cerp.penalties``. The rules of
`cerp.training.losses` hold for it too.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from cerp.models.backbones.base import BatchVectors
from cerp.pruning.functional import pruning_penalty
from cerp.registry import Registry

Penalty = Callable[[BatchVectors, float], Tensor]

PENALTIES: Registry[Penalty] = Registry("penalty", "cerp.penalties")
"""What `PruneConfig.penalty` can be."""


@PENALTIES.register("complementary")
def complementary(vectors: BatchVectors, temperature: float) -> Tensor:
    """``−Σ_k w_k ‖tanh(η e_k)‖²``: codebook rows that meet are non-zero in different places."""
    blocks = [
        pruning_penalty(block, temperature=temperature, weight=vectors.counts)
        for block in vectors.blocks
    ]
    return torch.stack(blocks).sum()
