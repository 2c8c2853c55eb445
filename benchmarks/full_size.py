"""Optimizer, decay and schedule of full-size LightGCN; writes results/<dataset>/full_size.json.

    CERP_DATA_DIR=... python benchmarks/full_size.py [--dataset gowalla] [--device cuda]

Full size says what compression costs, so it has to be as good as it can be, and
15 epochs of `benchmarks/search.py` are too few to see what decay does to it.
Here it is trained to the end, d = 128, four layers, on validation alone: the
test part is never read. Of trials that are as good as equal the shortest is
chosen; `search.py --collect` takes it into the recipes.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, described, write_figures

from cerp.config import RunOptions, TrainConfig
from cerp.data.splits import Splits
from cerp.models import backbones
from cerp.models.embeddings.full import FullEmbedding
from cerp.models.recommender import Recommender
from cerp.training.stages import train

DIMENSION = 128
EQUAL = 0.999
"""Of the best NDCG@10: less than seeds differ by."""
COUPLED: list[dict[str, Any]] = [
    {"learning_rate": 2e-3, "epochs": 60, "evaluate_every": 5},
    {"learning_rate": 1e-3, "epochs": 100},
    {"learning_rate": 3e-3, "epochs": 150, "weight_decay": 1e-8},
    {"learning_rate": 3e-3, "epochs": 150, "weight_decay": 3e-8},
    {"learning_rate": 2e-3, "epochs": 60, "batch_size": 2048},
    # Nearly LightGCN's own: one negative, small batches, a slow rate.
    {
        "learning_rate": 1e-3,
        "epochs": 150,
        "weight_decay": 4e-9,
        "batch_size": 2048,
        "negatives": 1,
    },
]
DECOUPLED: list[dict[str, Any]] = [
    {"learning_rate": 3e-3, "epochs": 120, "weight_decay": 0.03},
    {"learning_rate": 3e-3, "epochs": 120, "weight_decay": 0.1},
    {"learning_rate": 3e-3, "epochs": 120, "weight_decay": 0.3},
    {"learning_rate": 3e-3, "epochs": 80, "weight_decay": 1.0},
    {"learning_rate": 3e-3, "epochs": 300, "weight_decay": 0.03, "evaluate_every": 20},
    {"learning_rate": 3e-3, "epochs": 300, "weight_decay": 0.06, "evaluate_every": 20},
]
COSINE: list[dict[str, Any]] = [
    {"learning_rate": 5e-3, "epochs": 250, "weight_decay": 0.04},
    {"learning_rate": 5e-3, "epochs": 250, "weight_decay": 0.06, "evaluate_every": 25},
    {"learning_rate": 5e-3, "epochs": 250, "weight_decay": 0.1, "evaluate_every": 25},
    {"learning_rate": 1e-2, "epochs": 150, "weight_decay": 0.03, "evaluate_every": 15},
]
COSINE_ELSEWHERE: list[dict[str, Any]] = [
    {"learning_rate": 5e-3, "epochs": 250, "weight_decay": decay} for decay in (0.04, 0.15, 0.5, 1)
]
PRESET: list[dict[str, Any]] = [{"learning_rate": 3e-3, "epochs": 150}]


def trials(dataset: str) -> list[dict[str, Any]]:
    """Entries of `TrainConfig`: a wider search for the paper's data, a short one for others."""
    of_adamw = {"optimizer": "adamw"}
    cosine = of_adamw | {"schedule": "cosine"}
    if dataset == "gowalla":
        # To the end, however little is gained.
        stopping = {"evaluate_every": 10, "patience": 100}
        found = COUPLED + [of_adamw | one for one in DECOUPLED] + [cosine | one for one in COSINE]
    else:
        stopping = {"evaluate_every": 10, "patience": 3}
        found = PRESET + [cosine | one for one in COSINE_ELSEWHERE]
    return [stopping | one for one in found]


def main() -> None:
    """Train them all, and write what there is after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", default="gowalla")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    splits = Splits.load(Path(os.environ["CERP_DATA_DIR"]) / given.dataset)
    done: list[dict[str, Any]] = []
    for settings in trials(given.dataset):
        done.append(outcome(splits, settings, given.device))
        print(done[-1], flush=True)
        figures = {
            "trials": done,
            "chosen": chosen(done),
            "seed": 0,
            "machine": described(given.device),
        }
        write_figures(RESULTS / given.dataset / "full_size.json", figures)


def chosen(done: list[dict[str, Any]]) -> dict[str, Any]:
    """The settings of the shortest trial among the best; how it was stopped is not part of them."""
    best = max(trial["valid_ndcg@10"] for trial in done)
    equal = [one["settings"] for one in done if one["valid_ndcg@10"] >= EQUAL * best]
    shortest = min(equal, key=lambda settings: settings["epochs"])
    stopping = ("evaluate_every", "patience")
    return {name: value for name, value in shortest.items() if name not in stopping}


def outcome(splits: Splits, settings: dict[str, Any], device: str) -> dict[str, Any]:
    """Validation NDCG@10 of the best epoch."""
    started = time.perf_counter()
    generator = torch.Generator().manual_seed(0)
    embedding = FullEmbedding(splits.num_entities, DIMENSION, generator=generator)
    backbone = backbones.create("lightgcn", splits.train, embedding_dim=DIMENSION)
    model = Recommender(embedding, backbone).to(device)
    config = replace(TrainConfig(), **settings)
    options = RunOptions(quiet=True, device=device)
    found = train(model, splits, config, seed=0, label="full size", options=options)
    return {
        "settings": settings,
        "valid_ndcg@10": round(found.best_score, 5),
        "best_epoch": found.best_epoch,
        "seconds": round(time.perf_counter() - started, 1),
    }


if __name__ == "__main__":
    main()
