"""Settings that were found good, and those of the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from cerp.config import Config, PruneConfig, TrainConfig

PresetName = Literal["default", "paper"]


MLP_VALIDATION_USERS = 3000
"""The MLP scores every pair by a network of its own: ranking all users of a large data set
takes longer than an epoch."""


def preset(name: PresetName, backbone: str = "lightgcn", method: str = "cerp") -> Config:
    """The configuration called ``name`` for a backbone; budgets and seed are the caller's.

    - ``default``: spectral ids, scheduled pruning, training goes on from the pruned weights.
    - ``paper``: what the paper describes. Raw ids (which may leak: results carry the figures),
      5,000 buckets with the paper's divisor, free pruning from thresholds of -100 with at most
      50 epochs, training from the rewound weights.
    """
    users = MLP_VALIDATION_USERS if backbone == "mlp" else None
    training = TrainConfig(validation_users=users)
    if method == "full":
        # From larger values than pruned codebooks start at, slower and for longer.
        training = replace(training, learning_rate=3e-3, epochs=150, evaluate_every=10, patience=3)
    if name == "default":
        return Config(backbone=backbone, method=method, train=training)
    return Config(
        backbone=backbone,
        method=method,
        buckets=5000,
        hashing="paper",
        ordering="native",
        rewind="initial",
        prune=PruneConfig(
            mode="free",
            epochs=15,
            max_epochs=50,
            threshold_start="ones",
            threshold_scale=-100.0,
            gamma=1e-3,
            on_stall="report",
        ),
        train=training,
    )
