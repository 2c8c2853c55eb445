"""What a step of MF or the MLP costs beside its bare matrix products; writes small_steps.json.

    CERP_DATA_DIR=... python benchmarks/small_steps.py [--device cuda] [--backbone mlp] ...

One pruning step on Gowalla as training takes it: 8,192 positives with 5 negatives each, vectors of
128 dimensions by a hash at 99%, soft thresholds, BPR and penalty, the backward pass,
Adam. Beside it the products that no implementation can do without, forward and twice backward:
of the MLP, those of its layers with the batch; of MF, the dots of users and items and their two
gradients. Both alternate in one process, and the minimum of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from machine import RESULTS, described, write_figures
from propagation import BATCH, BUCKETS_AT_99, DIMENSION, NEGATIVES, alternate, pruning_step

from cerp.data.splits import Splits
from cerp.models import backbones
from cerp.models.backbones.mlp import hidden_widths
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.training.malloc import freed_memory_kept

RESULT = RESULTS / "small_steps.json"
ALLOWED_RATIO = 2.0


def main() -> None:
    """Time steps and products, print and write the figures; fail when a step costs too much."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--backbone", choices=["mf", "mlp"], nargs="+", default=["mf", "mlp"])
    options = parser.parse_args()
    device: str = options.device
    train = Splits.load(Path(os.environ["CERP_DATA_DIR"]) / "gowalla").train
    entities = train.num_users + train.num_items
    works: dict[str, Callable[[], object]] = {}
    for name in options.backbone:
        backbone = backbones.create(name, train, embedding_dim=DIMENSION).to(device)
        embedding = CompositionalEmbedding(entities, DIMENSION, buckets=BUCKETS_AT_99)
        works[f"{name} step"] = pruning_step(train, backbone, device, embedding)
        works[f"{name} products"] = {"mf": dots, "mlp": layers}[name](device)
    with freed_memory_kept():
        milliseconds = alternate(works, device)
    best = {name: min(values) for name, values in milliseconds.items()}
    ratios = {
        name: round(best[f"{name} step"] / best[f"{name} products"], 3) for name in options.backbone
    }
    result = {
        "ratios": ratios,
        "allowed_ratio": ALLOWED_RATIO,
        "milliseconds": milliseconds,
        "machine": described(device) | {"threads": torch.get_num_threads()},
    }
    print(json.dumps(result, indent=1))
    results = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    write_figures(RESULT, results | {f"{name} {device}": result for name in options.backbone})
    if any(ratio > ALLOWED_RATIO for ratio in ratios.values()):
        raise SystemExit(f"steps take {ratios} times their products; {ALLOWED_RATIO} is too much")


def layers(device: str) -> Callable[[], object]:
    """Of the MLP: users go through their half of the first layer once, items once each."""
    widths = (*hidden_widths(DIMENSION), 1)
    pairs = BATCH * (1 + NEGATIVES)
    shapes = [(BATCH, DIMENSION, widths[0]), (pairs, DIMENSION, widths[0])]
    shapes += [(pairs, wide, narrow) for wide, narrow in pairwise(widths)]
    made = [
        [torch.randn(*shape, device=device) for shape in ((rows, a), (a, b), (rows, b))]
        for rows, a, b in shapes
    ]

    def products() -> None:
        for given, weight, grad in made:
            given @ weight
            grad @ weight.T
            given.T @ grad

    return products


def dots(device: str) -> Callable[[], object]:
    """Of MF: each user's vector with those of six items, and what comes back to both."""
    user = torch.randn(BATCH, DIMENSION, 1, device=device)
    items = torch.randn(BATCH, 1 + NEGATIVES, DIMENSION, device=device)
    grad = torch.randn(BATCH, 1 + NEGATIVES, 1, device=device)

    def products() -> None:
        torch.bmm(items, user)
        torch.bmm(items.transpose(1, 2), grad)
        torch.bmm(grad, user.transpose(1, 2))

    return products


if __name__ == "__main__":
    main()
