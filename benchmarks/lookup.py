"""A compositional lookup beside ``nn.Embedding``, forward and backward, at a batch of 8,192 ids.

    python benchmarks/lookup.py -o results/lookup.json

The ratio of CPU times of one thread, each the fastest of many runs, taken in turns. An
``nn.Embedding`` has gradients for its whole table, as optimizers such as Adam want them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import described, write_figures
from torch import Tensor, nn

from cerp.nn import CompositionalEmbedding

BATCH = 8192
TURNS = 25
SIZES = ((10_000, 64), (100_000, 64), (1_000_000, 32))
STATES = ("dense", "pruning", "masked")


def kinds(count: int, dim: int) -> dict[str, Callable[[], CompositionalEmbedding]]:
    """A hash at 99% of the values pruned, and learned codes of 4 and of 8 books of 256 rows."""
    codes = np.random.default_rng(0).integers(0, 256, (count, 8))
    return {
        "hash": lambda: CompositionalEmbedding(count, dim, budget="99%"),
        "4 books": lambda: CompositionalEmbedding(count, dim, codes=codes[:, :4], buckets=256),
        "8 books": lambda: CompositionalEmbedding(count, dim, codes=codes, buckets=256),
    }


def in_state(embedding: CompositionalEmbedding, state: str) -> CompositionalEmbedding:
    """The same while thresholds learn, or under a mask of a third of its values."""
    if state == "pruning":
        embedding.start_pruning()
    elif state == "masked":
        kept = torch.rand(embedding.weight.shape, generator=torch.manual_seed(0)) < 1 / 3
        embedding.restrict(kept)
    return embedding


def step(module: nn.Module, ids: Tensor, gradient: Tensor) -> float:
    """Seconds of one thread for a lookup and its gradients."""
    started = time.process_time()
    module.zero_grad(set_to_none=True)
    module(ids).backward(gradient)
    return time.process_time() - started


def measured(count: int, dim: int) -> list[dict[str, Any]]:
    """Ratios for all kinds and states at one size."""
    torch.manual_seed(0)
    ids, gradient = torch.randint(count, (BATCH,)), torch.randn(BATCH, dim)
    full = nn.Embedding(count, dim)
    rows = []
    for name, make in kinds(count, dim).items():
        for state in STATES:
            made = in_state(make(), state)
            turns = [(step(full, ids, gradient), step(made, ids, gradient)) for _ in range(TURNS)]
            theirs, ours = (min(times) for times in zip(*turns, strict=True))
            rows.append(
                {
                    "ids": count,
                    "dim": dim,
                    "kind": name,
                    "state": state,
                    "embedding_ms": round(1e3 * theirs, 3),
                    "compositional_ms": round(1e3 * ours, 3),
                    "ratio": round(ours / theirs, 2),
                }
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for size in SIZES for row in measured(*size)]
    figures = {"machine": described("cpu"), "batch": BATCH, "turns": TURNS, "rows": rows}
    write_figures(given.output, figures)


if __name__ == "__main__":
    main()
