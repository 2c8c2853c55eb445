"""What learning codes from the training graph costs, and what they are worth untrained.

    CERP_DATA_DIR=... python benchmarks/codes.py [--device cuda] [--skip-accuracy]

Writes results/codes.json. Vectors and codes of Gowalla (rank 256; 4 books of 991 and of 256
rows) in seconds of the clock and of all cores together, with the peak memory of the process.

Untrained accuracy: users and items scored by the dot product of vectors, before and after they
are replaced by sums of rows. ``⟨x_u, y_i⟩`` with ``x_u = Σ d_i^(-1/2) V_i`` and ``y_i = d_i^(1/2)
V_i`` is the ideal low-pass filter. For ranking, the length of a user's vector means nothing, so
users have the items' mean length; the length of an item's vector means much, so items keep theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from machine import RESULTS, described, peak_memory, write_figures

from cerp.assignment.codes import Float32Array
from cerp.assignment.graph_vectors import GraphVectors, graph_vectors
from cerp.assignment.residual_kmeans import graph_codes, learn_codes
from cerp.data.splits import Splits
from cerp.evaluation.evaluate import evaluate

RANK, BOOKS, ROWS = 256, 4, (991, 256)
ALLOWED_SECONDS = {"cpu": 60.0, "cuda": 5.0}
RESULT = RESULTS / "codes.json"


def main() -> None:
    """Time both, judge both, print and write the figures; fail where it takes too long."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=sorted(ALLOWED_SECONDS), default="cpu")
    parser.add_argument("--skip-accuracy", action="store_true")
    options = parser.parse_args()
    device: str = options.device
    splits = Splits.load(Path(os.environ["CERP_DATA_DIR"]) / "gowalla")
    train = splits.train
    if device == "cuda":  # loading its libraries is no part of the work
        graph_codes(train, rows=16, rank=8, iterations=1, rounds=0, device=device)
    before = peak_memory()
    _, of_vectors = timed(lambda: graph_vectors(train, rank=RANK, device=device), device)
    result: dict[str, Any] = {"rank": RANK, "vectors": of_vectors, "codes": {}}
    for rows in ROWS:

        def learn(rows: int = rows) -> Any:
            return graph_codes(train, books=BOOKS, rows=rows, rank=RANK, device=device)

        codes, cost = timed(learn, device)
        result["codes"][f"{BOOKS}x{rows}"] = {
            **cost,
            "error": round(codes.error, 4),
            "shared": codes.shared,
        }
        print(json.dumps({f"{BOOKS}x{rows}": result["codes"][f"{BOOKS}x{rows}"]}), flush=True)
    result["peak_bytes"] = peak_memory()
    result["bytes_before"] = before
    result["machine"] = described(device) | {"threads": torch.get_num_threads()}
    if not options.skip_accuracy:
        result["untrained"] = untrained(splits, graph_vectors(train, rank=RANK, unit=False))
    print(json.dumps(result, indent=1))
    results = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    write_figures(RESULT, results | {device: result})
    slowest = max(cost["seconds"] for cost in result["codes"].values())
    if slowest > ALLOWED_SECONDS[device]:
        raise SystemExit(f"codes take {slowest:.0f} s; {ALLOWED_SECONDS[device]:.0f} are allowed")


def timed(work: Callable[[], Any], device: str) -> tuple[Any, dict[str, float]]:
    """What the work gives, and its seconds by the clock and of all cores together."""
    started, cores = time.perf_counter(), time.process_time()
    found = work()
    if device == "cuda":
        torch.cuda.synchronize()
    return found, {
        "seconds": round(time.perf_counter() - started, 2),
        "core_seconds": round(time.process_time() - cores, 2),
    }


class Dot:
    """Scores by the dot product of two tables."""

    def __init__(self, users: Float32Array, items: Float32Array) -> None:
        self.users, self.items = users, items

    def score_all(self, users: npt.NDArray[np.int32]) -> Float32Array:
        """Scores of all items for some users."""
        return self.users[users] @ self.items.T


def untrained(splits: Splits, vectors: GraphVectors) -> dict[str, Any]:
    """NDCG@10 of exact and of coded vectors, and the bytes of the latter's codes and int8 rows."""
    table, count = vectors.table(), vectors.num_users
    length = np.linalg.norm(table, axis=1, keepdims=True)
    common = np.sqrt(np.square(length[count:]).mean())
    table[:count] *= common / np.maximum(length[:count], np.finfo(np.float32).tiny)
    figures = {"exact": judged(splits, table, count)}
    order, weights = vectors.sequence, np.sqrt(vectors.degrees)
    for rows in ROWS:
        codes = learn_codes(table[order], weights[order], books=BOOKS, rows=rows)
        coded = np.empty_like(table)
        coded[order] = codes.vectors()
        bits = BOOKS * (rows - 1).bit_length()
        figures[f"{BOOKS}x{rows}"] = {
            **judged(splits, coded, count),
            "error": round(codes.error, 4),
            "bytes": -(-len(table) * bits // 8) + BOOKS * rows * vectors.rank,
        }
    return figures


def judged(splits: Splits, table: Float32Array, count: int) -> dict[str, Any]:
    """NDCG@10 on both parts."""
    scorer = Dot(table[:count], table[count:])
    return {
        part: round(evaluate(scorer, splits, on=part, ks=(10,)).mean["ndcg@10"], 4)
        for part in ("valid", "test")
    }


if __name__ == "__main__":
    main()
