"""Peak memory of pruning steps at the size of the paper's Amazon example.

    python benchmarks/memory.py

100 full pruning steps of MF (sampler over 50 million interactions, penalty,
thresholds, Adam) with 20.98 million users and 9.35 million items, d = 128, at
99.9%, the bucket count by the rule. The full table would take 15.5 GB; what is
held here grows with the codebooks, the batch and the interactions. Writes
results/memory.json.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from machine import RESULTS, machine, peak_memory, write_figures

from cerp.assignment.bucket_rule import bucket_count
from cerp.budget import Budget
from cerp.config import PruneConfig
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.models import backbones
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.training.loop import Loop
from cerp.training.malloc import freed_memory_kept
from cerp.training.pruning_hooks import ScheduledPruning
from cerp.training.sampling import Sampler

USERS, ITEMS, INTERACTIONS = 20_980_000, 9_350_000, 50_000_000
DIMENSION, BUDGET = 128, "99.9%"
STEPS = 100
ALLOWED_BYTES = 3_000_000_000


class CountedIds(Ids):
    """So many ids that are never looked at: 30 million would take 240 MB of their own."""

    def __init__(self, number: int) -> None:
        super().__init__(np.empty(0, dtype=np.int64))
        self.number = number

    def __len__(self) -> int:
        return self.number


def interactions() -> Interactions:
    """Random pairs, sorted by user: a few for every user, spread over the items."""
    rng = np.random.default_rng(0)
    user = np.sort(rng.integers(USERS, size=INTERACTIONS, dtype=np.int32))
    item = rng.integers(ITEMS, size=INTERACTIONS, dtype=np.int32)
    starts = np.flatnonzero(np.diff(user, prepend=-1))
    # Items ascend within a user: sorted as one key, a stretch at a time to keep memory low.
    for begin, end in zip(starts[::100_000], [*starts[100_000::100_000], len(user)], strict=True):
        key = user[begin:end].astype(np.int64) * ITEMS + item[begin:end]
        key.sort()
        item[begin:end] = key % ITEMS
    distinct = np.ones(len(user), dtype=bool)
    distinct[1:] = (user[1:] != user[:-1]) | (item[1:] != item[:-1])
    return Interactions(user[distinct], item[distinct], CountedIds(USERS), CountedIds(ITEMS))


def main() -> None:
    """Build, step, print and write the figures."""
    train = interactions()
    data_bytes = peak_memory()
    limit = Budget.parse(BUDGET).limit(USERS + ITEMS, DIMENSION)
    buckets = bucket_count(limit, USERS + ITEMS, DIMENSION)
    embedding = CompositionalEmbedding(USERS + ITEMS, DIMENSION, buckets=buckets)
    model = Recommender(embedding, backbones.create("mf", train, embedding_dim=DIMENSION))
    sampler = Sampler(train, batch_size=8192)
    config = PruneConfig()
    embedding.start_pruning(scale=-1.0)
    hooks = ScheduledPruning(embedding, config, [limit], len(sampler))
    loop = Loop(model, sampler, hooks.optimizers(model), epochs=1, hooks=hooks, label="memory")
    started = time.perf_counter()
    with freed_memory_kept():  # as `cerp train` does
        for position in range(STEPS):
            loop.take_step(sampler.next_batch(), 0, position)
    figures = {
        "entities": USERS + ITEMS,
        "interactions": len(train),
        "dimension": DIMENSION,
        "budget": BUDGET,
        "limit": limit,
        "buckets": buckets,
        "full_table_bytes": 4 * (USERS + ITEMS) * DIMENSION,
        "steps": STEPS,
        "seconds": round(time.perf_counter() - started, 1),
        "peak_bytes_after_data": data_bytes,
        "peak_bytes": peak_memory(),
        "allowed_bytes": ALLOWED_BYTES,
        "machine": machine("torch", "numpy"),
    }
    write_figures(RESULTS / "memory.json", figures)
    print(f"{peak_memory() / 1e9:.2f} GB peak, {figures['seconds']} s for {STEPS} steps")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
