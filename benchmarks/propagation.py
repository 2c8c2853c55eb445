"""What a full LightGCN pruning step costs; writes results/propagation.json.

    CERP_DATA_DIR=... python benchmarks/propagation.py [--device cuda] [--kernels] [--made-up]

One step on Gowalla: a batch of 8,192 positives with 5 fresh negatives each,
soft thresholds, the table of all 70,839 vectors of dimension 128, four layers
of propagation, BPR and penalty, the backward pass, Adam on codebooks and
thresholds. Beside it, eight bare products of torch's CSR adjacency with a
float32 table of the same shape: what the propagation of one step takes,
forward and backward, if nothing else is done. The two alternate in one
process, and the minimum of each counts, for the machine may be shared. On GPUs
a timing is the mean of several in a row, for training does not wait between
steps either. ``--made-up`` does the same on a seeded graph of 200,000 nodes
with the mean degree of Gowalla's, whose tables are larger than the blocks of
memory that training keeps.

On CPUs eight bare float32 products by torch's bags are timed as well, for how fast
the CSR product is depends on the maker of the processor, and the propagation alone
with other column blocks. On GPUs a
dense matrix may take the place of propagation: the step is timed as training
chooses it, with propagation (`sparse_pruning_step`), and with as many rows as a
99% budget has by the hash (`pruning_step_at_99`) and by learned codes, the default of
LightGCN (`coded_step_at_99`). ``--kernels`` also writes what kernels take of
a step, with propagation (before) and as training chooses it (after), to
results/propagation_kernels.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from machine import RESULTS, described, write_figures

from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.data.synthetic import synthetic
from cerp.models.backbones import Backbone, LightGCN, propagation
from cerp.models.batch import Batch
from cerp.models.embeddings.compositional import CompositionalEmbedding
from cerp.models.recommender import Recommender
from cerp.models.sparse import Csr
from cerp.training.adam import Adam
from cerp.training.cuda_graphs import CapturedStep
from cerp.training.malloc import freed_memory_kept
from cerp.training.objective import Objective
from cerp.training.sampling import Sampler

DIMENSION, LAYERS, BUCKETS, BUCKETS_AT_99 = 128, 4, 5000, 3939
BOOKS_AT_99, ROWS_AT_99 = 8, 256
BATCH, NEGATIVES = 8192, 5
REPEATS, WARM_UP, REPEATS_MADE_UP = 25, 5, 8
IN_A_ROW = {"cpu": 1, "cuda": 20}
COLUMN_BLOCKS = (16, 32, 64, 128)
ALLOWED_RATIO = {"cpu": 0.4, "cuda": 0.85}
MADE_UP = {"users": 84_000, "items": 116_000, "interactions": 2_030_000}
RESULT = RESULTS / "propagation.json"
KERNELS = RESULTS / "propagation_kernels.json"
PROFILED_STEPS, MOST_KERNELS = 50, 30


def main() -> None:
    """Time both, print and write the figures; fail when the step costs too much."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=sorted(ALLOWED_RATIO), default="cpu")
    parser.add_argument("--kernels", action="store_true", help="profile the kernels of a step")
    parser.add_argument("--made-up", action="store_true", help="a larger graph than Gowalla's")
    options = parser.parse_args()
    device: str = options.device
    train = made_up() if options.made_up else gowalla()
    table = torch.randn(train.num_users + train.num_items, DIMENSION).to(device)
    backbone = lightgcn(train, device)
    works = {
        "pruning_step": pruning_step(train, backbone, device),
        "eight_csr_products": eight_products(train, table),
    }
    if device == "cpu":
        works["eight_bag_products"] = eight_products(train, table, by_bags=True)
    if device == "cuda":
        sparse = lightgcn(train, device)
        sparse.dense_on = "nowhere"  # type: ignore[misc]
        works["sparse_pruning_step"] = pruning_step(train, sparse, device)
        nodes = backbone.graph.num_nodes
        at_99 = CompositionalEmbedding(nodes, DIMENSION, buckets=BUCKETS_AT_99)
        works["pruning_step_at_99"] = pruning_step(train, lightgcn(train, device), device, at_99)
        # Any codes will do: what a step costs does not depend on which rows they choose.
        codes = torch.randint(ROWS_AT_99, (nodes, BOOKS_AT_99)).numpy()
        coded = CompositionalEmbedding(nodes, DIMENSION, codes=codes, buckets=ROWS_AT_99)
        works["coded_step_at_99"] = pruning_step(train, lightgcn(train, device), device, coded)
    with freed_memory_kept():  # as `cerp train` does it; the products profit as well
        repeats = REPEATS_MADE_UP if options.made_up else REPEATS
        milliseconds = alternate(works, device, repeats)
    best = {name: min(values) for name, values in milliseconds.items()}
    ratio = best["pruning_step"] / best["eight_csr_products"]
    result: dict[str, Any] = {
        "ratio_of_minima": round(ratio, 3),
        "ratios": {
            name: round(value / best["eight_csr_products"], 3) for name, value in best.items()
        },
        "medians": {name: median(values) for name, values in milliseconds.items()},
        "allowed_ratio": ALLOWED_RATIO[device],
        "milliseconds": milliseconds,
        "in_a_row": IN_A_ROW[device],
        "batch": BATCH,
        "negatives": NEGATIVES,
        "dimension": DIMENSION,
        "layers": LAYERS,
        "nodes": backbone.graph.num_nodes,
        "nonzeros": len(backbone.graph.values),
        "machine": described(device) | {"threads": torch.get_num_threads()},
    }
    if device == "cpu" and not options.made_up:
        result["best_milliseconds_of_propagation_by_column_block"] = by_column_block(
            backbone.graph, table
        )
    print(json.dumps(result, indent=1))
    results = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    name = f"{device} made-up" if options.made_up else device
    write_figures(RESULT, results | {name: result})
    if options.kernels:
        names = {"before": "sparse_pruning_step", "after": "pruning_step"}
        found = {
            when: kernels(works[name], device) for when, name in names.items() if name in works
        }
        write_figures(KERNELS, {"machine": described(device), **found})
        print(json.dumps(found, indent=1))
    if ratio > ALLOWED_RATIO[device]:
        raise SystemExit(
            f"the step takes {ratio:.2f} times the bare products; "
            f"{ALLOWED_RATIO[device]} is too much"
        )


def gowalla() -> Interactions:
    """What users of Gowalla took, for training."""
    return Splits.load(Path(os.environ["CERP_DATA_DIR"]) / "gowalla").train


def made_up() -> Interactions:
    """As many pairs for each node as Gowalla has, of more nodes."""
    return synthetic(MADE_UP["users"], MADE_UP["items"], MADE_UP["interactions"])


def lightgcn(train: Interactions, device: str) -> LightGCN:
    """A backbone of its own: each keeps the matrix that its step reads."""
    return LightGCN(train, embedding_dim=DIMENSION, layers=LAYERS).to(device)


def kernels(step: Callable[[], object], device: str) -> dict[str, Any]:
    """What takes the time of a step, the most first: kernels on GPUs, operators on CPUs."""
    is_gpu = device == "cuda"
    activity = (
        torch.profiler.ProfilerActivity.CUDA if is_gpu else torch.profiler.ProfilerActivity.CPU
    )
    steps = PROFILED_STEPS if is_gpu else 3
    with torch.profiler.profile(activities=[activity]) as profiled:
        for _ in range(steps):
            step()
        wait(device)
    field = "self_device_time_total" if is_gpu else "self_cpu_time_total"
    times = [(getattr(one, field), one) for one in profiled.key_averages()]
    times.sort(key=lambda entry: -entry[0])
    return {
        "microseconds_per_step": round(sum(time for time, _ in times) / steps, 1),
        "kernels": [
            {
                "name": one.key[:120],
                "microseconds_per_step": round(time / steps, 2),
                "calls_per_step": round(one.count / steps, 2),
            }
            for time, one in times[:MOST_KERNELS]
        ],
    }


def pruning_step(
    train: Interactions,
    backbone: Backbone,
    device: str,
    embedding: CompositionalEmbedding | None = None,
) -> Callable[[], object]:
    """One step of pruning, ready to be repeated."""
    sampler = Sampler(train, batch_size=BATCH, negatives=NEGATIVES, device=device)
    if embedding is None:
        entities = train.num_users + train.num_items
        embedding = CompositionalEmbedding(entities, DIMENSION, buckets=BUCKETS)
    # σ(−6) = 0.0025 against weights up to 0.034: some entries are pruned, most are not.
    embedding.start_pruning(scale=-6.0)
    embedding.to(device)
    model = Recommender(embedding, backbone)
    optimizer = Adam(list(model.parameters()), learning_rate=1e-3)
    objective = Objective(gamma=1e-3)

    def update(batch: Batch) -> torch.Tensor:
        loss = objective(model, batch, BATCH)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    # As the training loop does it: recorded where it can be.
    taken = CapturedStep(update, torch.device(device)) if model.can_be_captured else update

    def step() -> None:
        taken(sampler.next_batch())
        if sampler.step == len(sampler) - 1:  # the last batch of an epoch is smaller
            sampler.step = 0

    return step


def eight_products(
    train: Interactions, table: torch.Tensor, *, by_bags: bool = False
) -> Callable[[], object]:
    """What is paid for propagation at least, if torch's CSR product, or its bags, are what pays it.

    Nodes are numbered as in the data, users first: `propagation.Graph` has an order of its own.
    """
    user, item = torch.tensor(train.user), torch.tensor(train.item) + train.num_users
    indices = torch.stack([torch.cat([user, item]), torch.cat([item, user])])
    ones = torch.sparse_coo_tensor(indices, torch.ones(indices.shape[1]), (len(table),) * 2)
    matrix = ones.to_sparse_csr()
    adjacency = torch.sparse_csr_tensor(
        matrix.crow_indices().int(),
        matrix.col_indices().int(),
        matrix.values(),
        matrix.shape,
        check_invariants=False,
    ).to(table.device)

    bags = Csr(adjacency.crow_indices(), adjacency.col_indices(), adjacency.values())

    def products() -> None:
        for _ in range(2 * LAYERS):
            adjacency @ table

    def products_by_bags() -> None:
        for _ in range(2 * LAYERS):
            bags.times(table)

    return products_by_bags if by_bags else products


def by_column_block(graph: propagation.Graph, table: torch.Tensor) -> dict[str, float]:
    """Propagation forward alone, with different numbers of columns at a time."""
    chosen = propagation.CPU_COLUMN_BLOCK

    def with_block(columns: int) -> Callable[[], object]:
        def run() -> None:
            propagation.CPU_COLUMN_BLOCK = columns
            graph.propagate(table, LAYERS)

        return run

    times = alternate({str(columns): with_block(columns) for columns in COLUMN_BLOCKS}, "cpu")
    propagation.CPU_COLUMN_BLOCK = chosen
    return {columns: min(values) for columns, values in times.items()}


def alternate(
    works: dict[str, Callable[[], object]], device: str, repeats: int = REPEATS
) -> dict[str, list[float]]:
    """Milliseconds of each, several times in turn."""
    milliseconds: dict[str, list[float]] = {name: [] for name in works}
    times = IN_A_ROW[device]
    for repeat in range(WARM_UP + repeats):
        for name, work in works.items():
            wait(device)
            started = time.perf_counter()
            for _ in range(times):
                work()
            wait(device)
            if repeat >= WARM_UP:
                passed = 1e3 * (time.perf_counter() - started) / times
                milliseconds[name].append(round(passed, 3))
    return milliseconds


def wait(device: str) -> None:
    """Let a GPU finish what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
