"""The vectors of implicit ALS, as the package `implicit` computes them.

They minimise (Hu, Koren and Volinsky, 2008), by least squares for users and items in turns,

    Σ_{u,i} c_ui (t_ui − ⟨x_u, y_i⟩)² + λ (Σ_u ‖x_u‖² + Σ_i ‖y_i‖²)

with t_ui = 1 and c_ui = α where user u took item i in training, t_ui = 0 and c_ui = 1 elsewhere.
Where interactions have weights, c_ui = α · w_ui / w̄, with w̄ their mean.
Users and items without training rows have zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from cerp.data.ids import Float32Array
from cerp.data.interactions import Interactions


@dataclass(frozen=True, order=True)
class AlsSettings:
    """What is searched on validation."""

    rank: int
    """Length of a vector."""
    regularization: float
    """λ"""
    alpha: float
    """How much a pair of training counts against one that is not there."""
    iterations: int
    """Turns of users and items."""


def als_vectors(train: Interactions, settings: AlsSettings, seed: int) -> Float32Array:
    """Vectors of all users, then of all items, (N, rank).

    Rows are solved one by one, so that the number of threads changes nothing.
    """
    # The CPU's by name: where it finds a GPU, the package would choose that, with other bits.
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    weights = np.ones(len(train), dtype=np.float32)
    if train.weight is not None:
        weights = train.weight / train.weight.mean(dtype=np.float64).astype(np.float32)
    shape = train.num_users, train.num_items
    taken = csr_matrix((weights, (train.user, train.item)), shape=shape)
    # Threads of the BLAS inside those of the package wait for each other; it warns of them, when
    # a model is made as when it is fitted.
    with threadpool_limits(1, "blas"):
        model = AlternatingLeastSquares(
            factors=settings.rank,
            regularization=settings.regularization,
            alpha=settings.alpha,
            iterations=settings.iterations,
            num_threads=torch.get_num_threads(),
            random_state=seed,
        )
        model.fit(taken, show_progress=False)
    vectors: Float32Array = np.concatenate([model.user_factors, model.item_factors])
    return vectors
