"""What each process holds when several train MF together, and what drawing their batches takes.

    python benchmarks/shards.py

20 million made-up training pairs in a split folder, 2 million users, 600,000 items, 99%, d = 32.
Memory is what Linux counts for a process: pages that it alone has (private), and its part of all
it uses (proportional). Drawing is that of one process of several, whose own rows are 8,192 in
each global batch, in CPU time of one thread. Writes results/shards.json.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import RESULTS, machine, write_figures

from cerp.assignment.bucket_rule import bucket_count
from cerp.budget import Budget
from cerp.config import TrainConfig
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.models import backbones
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.training.distributed import process_group, world_size
from cerp.training.loop import Loop, StageHooks
from cerp.training.optimizers import weight_optimizer
from cerp.training.sampling import Sampler
from cerp.training.stages import training_sampler

USERS, ITEMS, PAIRS = 2_000_000, 600_000, 20_000_000
DIMENSION, BUDGET = 32, "99%"
BATCH, STEPS = 8192, 20
PROCESSES = (1, 2)
DRAWN_FOR = (1, 2, 8, 64)
RUNS = 3


def made_up() -> Interactions:
    """Ten items for each user, one out of each tenth of the catalogue."""
    each = PAIRS // USERS
    items = np.random.default_rng(0).integers(ITEMS // each, size=(USERS, each), dtype=np.int32)
    items += np.arange(each, dtype=np.int32) * (ITEMS // each)
    user = np.repeat(np.arange(USERS, dtype=np.int32), each)
    return Interactions.from_sorted(
        user, items.ravel(), users=Ids.range(USERS), items=Ids.range(ITEMS)
    )


def memory() -> dict[str, int]:
    """Bytes of this process, as Linux counts them."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    found = {line.split()[0].rstrip(":"): int(line.split()[1]) * 1024 for line in lines}
    return {
        "private": found["Private_Clean"] + found["Private_Dirty"],
        "proportional": found["Pss"],
    }


def one_process(folder: Path) -> None:
    """Load, step, and print what is held before, after loading and while training."""
    held = {"imported": memory()}
    with process_group("cpu"):
        splits = Splits.load(folder)
        held["loaded"] = memory()
        entities = splits.num_entities
        buckets = bucket_count(Budget.parse(BUDGET).limit(entities, DIMENSION), entities, DIMENSION)
        embedding = CompositionalEmbedding(entities, DIMENSION, buckets=buckets)
        backbone = backbones.create("mf", splits.train, embedding_dim=DIMENSION)
        model, config = Recommender(embedding, backbone), TrainConfig(batch_size=BATCH)
        sampler = training_sampler(model, splits, config, seed=0)
        optimizers = [weight_optimizer(config, list(model.parameters()))]
        loop = Loop(model, sampler, optimizers, epochs=1, hooks=StageHooks(), label="shards")
        for position in range(STEPS):
            loop.take_step(sampler.next_batch(), 0, position)
        if world_size() > 1:
            torch.distributed.barrier()  # what is shared is there as often as it is shared
        held["training"] = memory()
        if world_size() > 1:
            torch.distributed.barrier()
    print(json.dumps(held))


def held_by(folder: Path, processes: int) -> list[dict[str, Any]]:
    """What each of so many processes held."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    place |= {"WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            stdout=subprocess.PIPE,
            env=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(processes)
    ]
    return [json.loads(process.communicate()[0]) for process in running]


def memory_figures() -> dict[str, list[dict[str, Any]]]:
    """By the number of processes."""
    train = made_up()
    nothing = train.subset(np.zeros(len(train), dtype=bool))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "split"
        Splits(train, nothing, nothing).save(folder)
        return {str(processes): held_by(folder, processes) for processes in PROCESSES}


def drawing_milliseconds() -> dict[str, float]:
    """Of the first process, by how many there are."""
    torch.set_num_threads(1)
    train, found = made_up(), {}
    for processes in DRAWN_FOR:
        sampler = Sampler(train, share=(0, processes), batch_size=BATCH * processes)
        sampler.batch(0, 0)
        steps, seconds = range(1, min(len(sampler), 1 + STEPS)), []
        for _ in range(RUNS):
            begun = time.process_time()
            for step in steps:
                sampler.batch(0, step)
            seconds.append((time.process_time() - begun) / len(steps))
        found[str(processes)] = round(1000 * min(seconds), 2)
    return found


def main() -> None:
    """Measure, print and write."""
    figures = {
        "pairs": PAIRS,
        "users": USERS,
        "items": ITEMS,
        "batch_of_a_process": BATCH,
        "bytes_by_processes": memory_figures(),
        "drawing_milliseconds_by_processes": drawing_milliseconds(),
        "machine": machine("torch", "numpy"),
    }
    print(json.dumps(figures, indent=1))
    write_figures(RESULTS / "shards.json", figures)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one_process(Path(sys.argv[1]))
    else:
        main()
