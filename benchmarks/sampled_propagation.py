"""What LightGCN with some neighbours in place of the whole graph costs: accuracy, time, memory.

    CERP_DATA_DIR=... python benchmarks/sampled_propagation.py --data lastfm --seeds 3
    python benchmarks/sampled_propagation.py --split big/100/split

With data, CERP is trained with all neighbours (0) and with some, everything else alike, and judged
by the whole graph each time. With a split, such as `benchmarks/scale.py` leaves, it is steps of
pruning, of the size that they have there, and the way to the first scores that are measured, and
the memory of each. The seconds are those of the CPU, over all threads. Writes
results/sampled_propagation.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from machine import RESULTS, machine, peak_memory, write_figures

import cerp
from cerp.assignment.bucket_rule import bucket_count
from cerp.budget import Budget
from cerp.config import Config, PruneConfig
from cerp.data.splits import Splits
from cerp.evaluation.evaluate import evaluate, users_to_judge
from cerp.models.backbones.lightgcn import LightGCN
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.presets import preset
from cerp.training.loop import Loop
from cerp.training.malloc import freed_memory_kept
from cerp.training.pruning_hooks import ScheduledPruning
from cerp.training.sampling import Sampler

RESULT = RESULTS / "sampled_propagation.json"
DIMENSION, BUDGET, BUDGET_OF_STEPS = 32, "90%", "99.9%"
STEPS, BATCH, NEGATIVES = 20, 8192, 1


def main() -> None:
    """Train or step, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", help="the name of a folder in CERP_DATA_DIR")
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 1, 4, 8])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, nargs=2, default=[5, 20], metavar=("PRUNE", "TRAIN"))
    parser.add_argument("--split", type=Path, help="a folder that `cerp data split` wrote")
    parser.add_argument("--judge", type=int, default=100, help="users; 0: steps alone")
    options = parser.parse_args()
    figures: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.is_file() else {}
    if options.data is not None:
        splits = Splits.load(Path(os.environ["CERP_DATA_DIR"]) / options.data)
        found = [
            trained(splits, most, seed, *options.epochs)
            for most in options.neighbours
            for seed in range(options.seeds)
        ]
        figures.setdefault("accuracy", {})[options.data] = found
        figures["accuracy"]["machine"] = machine("torch", "numpy")
    if options.split is not None:
        found_steps = steps(Splits.load(options.split), options.judge)
        name = f"{found_steps['entities']:,} entities"
        known = figures.setdefault("steps", {}).get(name, {})
        figures["steps"][name] = {**known, **found_steps}
        print(json.dumps(found_steps, indent=1))
    write_figures(RESULT, figures)


def trained(
    splits: Splits, neighbours: int, seed: int, prune_epochs: int, epochs: int
) -> dict[str, Any]:
    """A model with so many neighbours, and what it has on test."""
    config = preset("default", "lightgcn", assignment="hash")
    config = replace(
        config,
        budgets=(BUDGET,),
        dim=DIMENSION,
        seed=seed,
        backbone_options={"neighbours": neighbours},
        prune=replace(config.prune, epochs=prune_epochs),
        train=replace(config.train, epochs=epochs),
    )
    begun = time.process_time()
    model = fitted(splits, config)
    found = {
        "neighbours": neighbours,
        "seed": seed,
        "epochs": [prune_epochs, epochs],
        "best_epoch": model.facts.best_epoch,
        **{f"test_{name}": model.metrics["test"][name] for name in ("ndcg@10", "recall@10")},
        "cpu_seconds": round(time.process_time() - begun, 1),
    }
    print(found, flush=True)
    return found


def fitted(splits: Splits, config: Config) -> cerp.FittedModel:
    """The only model of a configuration."""
    from cerp.config import RunOptions
    from cerp.runs.fit import fit_all

    [model] = fit_all(splits, config, RunOptions(device="cpu", quiet=True))
    return model


def steps(splits: Splits, judged: int) -> dict[str, Any]:
    """Pruning steps, then scores of so many users by the whole graph."""
    train, entities = splits.train, splits.num_entities
    figures: dict[str, Any] = {
        "entities": entities,
        "interactions": len(train),
        "dimension": DIMENSION,
        "batch": BATCH,
        "negatives": NEGATIVES,
        "peak_bytes_of_data": peak_memory(),
    }
    begun = time.process_time()
    backbone = LightGCN(train, embedding_dim=DIMENSION, neighbours=8)
    figures |= {
        "neighbours": backbone.neighbours,
        "layers": backbone.layers,
        "graph_cpu_seconds": round(time.process_time() - begun, 1),
    }
    limit = Budget.parse(BUDGET_OF_STEPS).limit(entities, DIMENSION)
    buckets = bucket_count(limit, entities, DIMENSION)
    embedding = CompositionalEmbedding(entities, DIMENSION, buckets=buckets)
    model = Recommender(embedding, backbone)
    sampler = Sampler(train, batch_size=BATCH, negatives=NEGATIVES)
    embedding.start_pruning(scale=-1.0)
    hooks = ScheduledPruning(embedding, PruneConfig(), [limit], len(sampler))
    loop = Loop(model, sampler, hooks.optimizers(model), epochs=1, hooks=hooks, label="steps")
    with freed_memory_kept():  # as `cerp train` does
        loop.take_step(sampler.next_batch(), 0, 0)  # what is made once
        begun = time.process_time()
        for position in range(1, STEPS + 1):
            loop.take_step(sampler.next_batch(), 0, position)
    figures["cpu_seconds_a_step"] = round((time.process_time() - begun) / STEPS, 3)
    figures |= {"peak_bytes_of_steps": peak_memory(), "machine": machine("torch", "numpy")}
    if not judged:
        return figures
    begun = time.process_time()
    scorer = model.scorer()
    figures["propagation_cpu_seconds"] = round(time.process_time() - begun, 1)
    begun = time.process_time()
    users = users_to_judge(splits, "valid", judged)
    evaluate(scorer, splits, on="valid", ks=(10,), users=users)
    figures |= {
        "judged": judged,
        "judging_cpu_seconds": round(time.process_time() - begun, 1),
        "peak_bytes": peak_memory(),
    }
    return figures


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
