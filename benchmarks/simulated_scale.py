"""Time and memory of MF on many GPUs, by arithmetic from figures that were measured.

    python benchmarks/simulated_scale.py

Nothing here was run on several GPUs: a step that was measured on one, what drawing for several
processes took on a CPU (`benchmarks/shards.py`), and bytes that follow from what a process holds,
are put together under `ASSUMED`. Writes results/simulated_scale.json.
"""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from machine import RESULTS, write_figures

from cerp.assignment.bucket_rule import bucket_count
from cerp.budget import Budget

INTERACTIONS, ENTITIES = 1_000_000_000, 30_330_000
BUDGET, DIMENSION = "99.9%", 128
MEASURED_BATCH, BATCH = 8192, 65536
GPUS = (8, 16, 32, 64)
ASSUMED: dict[str, Any] = {
    "train_share": 0.72,
    "batch_of_a_gpu": BATCH,
    "time_of_a_step": "grows with the batch, from one of 8,192 that was measured",
    "share_of_drawing": 0.2,
    "drawing": "a fifth of a step; grows with the processes by as much of itself as on a CPU",
    "gpus_of_a_node": 8,
    "bytes_a_second_within_a_node": 300e9,
    "bytes_a_second_between_nodes": 50e9,
    "adding_up": "2 (n - 1) / n times the gradients pass each GPU, at the slower of both speeds",
    "epochs": "one of pruning, whose thresholds have gradients too, and one of training",
}
"""What is not measured. Speeds are those of NVLink and of a network of 400 Gbit/s for each GPU."""


def main() -> None:
    """Compute, print a table and write it."""
    steps = json.loads((RESULTS / "small_steps.json").read_text())["mf cuda"]
    step = median(steps["milliseconds"]["mf step"]) / 1000
    growth = growth_of_drawing()
    rows = [simulated(count, step, growth) for count in GPUS]
    figures = {
        "interactions": INTERACTIONS,
        "entities": ENTITIES,
        "dimension": DIMENSION,
        "budget": BUDGET,
        "measured_step_seconds": step,
        "measured_on": steps["machine"]["processor"],
        "growth_of_drawing_a_process": round(growth, 3),
        "assumed": ASSUMED,
        "gpus": rows,
    }
    write_figures(RESULTS / "simulated_scale.json", figures)
    print("| " + " | ".join(rows[0]) + " |")
    for row in rows:
        print("| " + " | ".join(f"{value:,}" for value in row.values()) + " |")


def growth_of_drawing() -> float:
    """By how much of itself drawing takes longer for each further process, on a CPU."""
    measured = json.loads((RESULTS / "shards.json").read_text())
    seconds = measured["drawing_milliseconds_by_processes"]
    most = max(seconds, key=int)
    return float((seconds[most] / seconds["1"] - 1) / (int(most) - 1))


def simulated(gpus: int, measured_step: float, growth: float) -> dict[str, Any]:
    """An epoch of pruning and one of training on so many GPUs."""
    pairs = round(INTERACTIONS * ASSUMED["train_share"])
    buckets = bucket_count(Budget.parse(BUDGET).limit(ENTITIES, DIMENSION), ENTITIES, DIMENSION)
    values = 2 * buckets * DIMENSION
    steps = -(-pairs // (BATCH * gpus))
    whole = measured_step * BATCH / MEASURED_BATCH
    own = whole * (1 - ASSUMED["share_of_drawing"])
    drawing = whole * ASSUMED["share_of_drawing"] * (1 + growth * (gpus - 1))
    inside = gpus <= ASSUMED["gpus_of_a_node"]
    where = "within_a_node" if inside else "between_nodes"
    speed = ASSUMED[f"bytes_a_second_{where}"]
    passed = 2 * (gpus - 1) / gpus * 4 * values  # bytes of the gradients of the codebooks
    adding = {"pruning": 2 * passed / speed, "training": passed / speed}
    epochs = {name: steps * (own + drawing + one) for name, one in adding.items()}
    return {
        "gpus": gpus,
        "steps_an_epoch": steps,
        "own_milliseconds": round(1000 * own, 1),
        "drawing_milliseconds": round(1000 * drawing, 1),
        "adding_up_milliseconds": round(1000 * adding["pruning"], 1),
        "pruning_epoch_seconds": round(epochs["pruning"]),
        "training_epoch_seconds": round(epochs["training"]),
        "gpu_gigabytes": round(gpu_bytes(pairs / gpus, ENTITIES / gpus, values) / 1e9, 1),
        "host_gigabytes_a_node": round(host_bytes(pairs / gpus) / 1e9, 1),
    }


def gpu_bytes(own_pairs: float, own_entities: float, values: int) -> float:
    """Of the sampler's share (a key for each pair), codebooks and optimizers.

    Weights and thresholds have a value, a gradient and two moments each.
    """
    return 8 * own_pairs + 8 * own_entities + 8 * 4 * values


def host_bytes(own_pairs: float) -> float:
    """Of the mapped interactions, which a node holds once, and what its processes make of them.

    Each makes the keys of its share, and three arrays of all entities at most to find it.
    """
    return 8 * INTERACTIONS + ASSUMED["gpus_of_a_node"] * (8 * own_pairs + 24 * ENTITIES)


if __name__ == "__main__":
    main()
