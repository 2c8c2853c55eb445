"""A compositional lookup beside ``nn.Embedding``, forward and backward, at a batch of 8,192 ids.

    python benchmarks/lookup.py -o results/lookup.json
    python benchmarks/lookup.py --device cuda -o results/lookup_gpu.json

The ratio of CPU times of one thread, or of times on a GPU that is waited for, each the fastest of
many runs, taken in turns. An ``nn.Embedding`` has gradients for its whole table, as optimizers such
as Adam want them.
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
TURNS = 100
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
    device = embedding.weight.device
    if state == "pruning":
        embedding.start_pruning()
    elif state == "masked":
        kept = torch.rand(embedding.weight.shape, generator=torch.manual_seed(0)) < 1 / 3
        embedding.restrict(kept.to(device))
    return embedding


def step(module: nn.Module, ids: Tensor, gradient: Tensor) -> float:
    """Seconds for a lookup and its gradients: of one thread, or until the GPU is done."""
    on_gpu = ids.is_cuda
    if on_gpu:
        torch.cuda.synchronize()
    clock = time.perf_counter if on_gpu else time.process_time
    started = clock()
    module.zero_grad(set_to_none=True)
    module(ids).backward(gradient)
    if on_gpu:
        torch.cuda.synchronize()
    return clock() - started


def measured(count: int, dim: int, device: str) -> list[dict[str, Any]]:
    """Ratios for all kinds and states at one size."""
    torch.manual_seed(0)
    ids, gradient = torch.randint(count, (BATCH,)), torch.randn(BATCH, dim)
    ids, gradient = ids.to(device), gradient.to(device)
    full = nn.Embedding(count, dim, device=device)
    rows = []
    for name, make in kinds(count, dim).items():
        for state in STATES:
            made = in_state(make().to(device), state)
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
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = [row for size in SIZES for row in measured(*size, given.device)]
    figures = {"machine": described(given.device), "batch": BATCH, "turns": TURNS, "rows": rows}
    write_figures(given.output, figures)


if __name__ == "__main__":
    main()
