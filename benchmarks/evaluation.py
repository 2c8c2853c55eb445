"""What exact evaluation costs beyond the scores; writes results/evaluation.json.

    CERP_DATA_DIR=... python benchmarks/evaluation.py

All users of Gowalla against all items, random float32 factors of dimension
128. The bare run multiplies the factors and calls torch.topk(50), in the same
chunks, and does nothing with the result; evaluate() also masks, ranks with the
tie rule and computes every metric at 5, 10, 20 and 50. The two alternate in
one process, and the minimum of each counts, for the machine may be shared.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from machine import RESULTS, machine, peak_memory, write_figures

from cerp.data.ids import Int32Array
from cerp.data.splits import Splits
from cerp.evaluation.evaluate import DEFAULT_MEMORY, evaluate

DIMENSION = 128
REPEATS = 5
ALLOWED_RATIO = 1.5
RESULT = RESULTS / "evaluation.json"


class Factors:
    """Scores are the product of two random matrices."""

    def __init__(self, num_users: int, num_items: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.users = torch.randn(num_users, DIMENSION, generator=generator)
        self.items = torch.randn(num_items, DIMENSION, generator=generator)

    def score_all(self, users: Int32Array) -> torch.Tensor:
        """The product for some users."""
        return self.users[torch.from_numpy(users)] @ self.items.T


def main() -> None:
    """Time both, print and write the figures; fail when evaluation costs too much."""
    splits = Splits.load(Path(os.environ["CERP_DATA_DIR"]) / "gowalla")
    scorer = Factors(splits.num_users, splits.num_items)
    users = np.unique(splits.test.user)
    rows = DEFAULT_MEMORY // (4 * splits.num_items)
    memory_before = peak_memory()

    def bare() -> None:
        for start in range(0, len(users), rows):
            torch.topk(scorer.score_all(users[start : start + rows]), 50)

    def judged() -> None:
        evaluate(scorer, splits)

    judged()
    memory_after = peak_memory()
    seconds: dict[str, list[float]] = {"evaluate": [], "product_and_topk": []}
    for _ in range(REPEATS):
        seconds["evaluate"].append(timed(judged))
        seconds["product_and_topk"].append(timed(bare))
    ratio = min(seconds["evaluate"]) / min(seconds["product_and_topk"])
    result = {
        "users": len(users),
        "items": splits.num_items,
        "dimension": DIMENSION,
        "chunk_bytes": DEFAULT_MEMORY,
        "seconds": {name: [round(s, 3) for s in values] for name, values in seconds.items()},
        "ratio_of_minima": round(ratio, 3),
        "peak_memory_bytes": {"before": memory_before, "after_evaluate": memory_after},
        "machine": machine("numpy", "torch"),
    }
    print(json.dumps(result, indent=1))
    write_figures(RESULT, result)
    if ratio > ALLOWED_RATIO:
        raise SystemExit(
            f"evaluate() takes {ratio:.2f} times the bare run; {ALLOWED_RATIO} is too much"
        )


def timed(work: Callable[[], None]) -> float:
    """Seconds that it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
