"""Time and memory of CERP at the size of Yelp2020, whose training file is not at hand.

    python benchmarks/yelp_shape.py [--device cuda]

Made-up interactions of its exact shape: 71,135 users, 45,063 items, 1,782,999
interactions, split like the paper's. Some pruning steps of the paper preset
(8,000 buckets, 99%) with each backbone, and one full evaluation. What a step
takes is given as a multiple of the same step at the size of Gowalla, measured in
the same run. Writes results/yelp_shape.json, or results/yelp_shape_cuda.json.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from machine import RESULTS, machine, peak_memory, write_figures

from cerp.budget import Budget
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.evaluation.evaluate import evaluate
from cerp.models import backbones
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.paper.published import bucket_count, published_rows
from cerp.presets import preset
from cerp.training.loop import Loop
from cerp.training.pruning_hooks import ScheduledPruning
from cerp.training.stages import score_memory, training_sampler

BUDGET = "99%"
STEPS, WARM_UP = 5, 1


def splits_like(dataset: str) -> Splits:
    """Made-up interactions with the counts of a data set of the paper."""
    [shape] = published_rows("table1", dataset=dataset)
    return synthetic(shape["users"], shape["items"], shape["interactions"]).split(seed=0)


def seconds_a_step(splits: Splits, dataset: str, backbone: str, device: str) -> float:
    """Of pruning, without the first steps."""
    config = preset("paper", backbone)
    buckets = bucket_count(dataset)
    assert buckets is not None
    embedding = CompositionalEmbedding(
        splits.num_entities, config.dim, buckets=buckets, hash_name=config.hashing
    )
    network = backbones.create(backbone, splits.train, embedding_dim=config.dim)
    model = Recommender(embedding, network).to(device)
    sampler = training_sampler(model, splits, config.prune, seed=0)
    embedding.start_pruning(scale=-1.0)
    limit = Budget.parse(BUDGET).limit(splits.num_entities, config.dim)
    hooks = ScheduledPruning(embedding, config.prune, [limit], len(sampler))
    loop = Loop(model, sampler, hooks.optimizers(model), epochs=1, hooks=hooks, label=backbone)
    started = 0.0
    for position in range(WARM_UP + STEPS):
        if position == WARM_UP:
            _wait(device)
            started = time.perf_counter()
        loop.take_step(sampler.next_batch(), 0, position)
    _wait(device)
    return (time.perf_counter() - started) / STEPS


def seconds_of_evaluation(splits: Splits, device: str) -> float:
    """Full ranking of all test users by LightGCN with untrained codebooks."""
    embedding = CompositionalEmbedding(splits.num_entities, 128, buckets=8000)
    network = backbones.create("lightgcn", splits.train, embedding_dim=128)
    model = Recommender(embedding, network).to(device).eval()
    started = time.perf_counter()
    evaluate(model.scorer(), splits, ks=(10,), memory=score_memory(torch.device(device)))
    return time.perf_counter() - started


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    """Build, step, judge, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--device", default="cpu")
    device = parser.parse_args().device
    started = time.perf_counter()
    yelp = splits_like("yelp2020")
    figures: dict[str, Any] = {
        "users": yelp.num_users,
        "items": yelp.num_items,
        "interactions": len(yelp.train_and_valid) + len(yelp.test),
        "seconds_of_making": round(time.perf_counter() - started, 1),
        "device": device if device == "cpu" else torch.cuda.get_device_name(),
    }
    gowalla = splits_like("gowalla")
    for backbone in ("lightgcn", "mlp"):
        of_yelp = seconds_a_step(yelp, "yelp2020", backbone, device)
        of_gowalla = seconds_a_step(gowalla, "gowalla", backbone, device)
        figures[backbone] = {
            "seconds_a_step": round(of_yelp, 4),
            "against_gowalla": round(of_yelp / of_gowalla, 2),
        }
    figures["seconds_of_evaluation"] = round(seconds_of_evaluation(yelp, device), 1)
    figures["peak_bytes"] = peak_memory()
    if device != "cpu":
        figures["peak_gpu_bytes"] = torch.cuda.max_memory_allocated()
    figures["machine"] = machine("torch", "numpy")
    name = "yelp_shape" if device == "cpu" else "yelp_shape_cuda"
    write_figures(RESULTS / f"{name}.json", figures)
    print(figures)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
