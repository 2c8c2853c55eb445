"""A small training run in a process of its own: `python training_process.py FOLDER [learned]`.

Used by the tests that kill it and by those that start it under torchrun.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from cerp.config import Config, PruneConfig, RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic

CONFIG = Config(
    budgets=("80%", "95%"),
    backbone="lightgcn",
    dim=8,
    ordering="degree",
    prune=PruneConfig(epochs=3, batch_size=256),
    train=TrainConfig(epochs=4, evaluate_every=2, batch_size=256, learning_rate=1e-2),
)


LEARNED = replace(CONFIG, assignment="learned", codebooks=4)
"""The same with codes that are learned from the graph."""


def small_splits() -> Splits:
    return synthetic(120, 80, 1500).split(seed=0)


def main(folder: Path, config: Config) -> None:
    from cerp.runs.fit import fit_all
    from cerp.training.distributed import process_group

    with process_group("cpu") as device:
        options = RunOptions(device, folder, resume=True, checkpoint_seconds=0, quiet=True)
        fit_all(small_splits(), config, options)


if __name__ == "__main__":
    main(Path(sys.argv[1]), LEARNED if "learned" in sys.argv[2:] else CONFIG)
