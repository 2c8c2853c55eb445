"""Settings that were found good, and those of the paper."""

from __future__ import annotations

from typing import Literal

from cerp.config import Config, PruneConfig, TrainConfig

PresetName = Literal["default", "paper"]


def preset(name: PresetName, backbone: str = "lightgcn") -> Config:
    """The configuration called ``name`` for a backbone; budgets and seed are the caller's.

    - ``default``: spectral ids, scheduled pruning, training goes on from the pruned weights.
    - ``paper``: what the paper describes. Raw ids (which may leak: results carry the figures),
      5,000 buckets with the paper's divisor, free pruning from thresholds of -100 with at most
      50 epochs, training from the rewound weights.
    """
    if name == "default":
        return Config(backbone=backbone)
    return Config(
        backbone=backbone,
        buckets=5000,
        hash="paper",
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
        train=TrainConfig(),
    )
