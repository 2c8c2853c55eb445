"""Training losses, as sums over a batch: the caller divides by the size of the global batch."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def bpr(scores: Tensor) -> Tensor:
    """``Σ_b Σ_j softplus(y_bj − y_b0)``: column 0 holds the positives, the others negatives.

    Bayesian personalised ranking, −log σ(y⁺ − y⁻), summed over the negatives.
    """
    return F.softplus(scores[:, 1:] - scores[:, :1]).sum()
