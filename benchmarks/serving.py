"""How fast a file is loaded and recommends on one core, beside `implicit`.

    pip install implicit
    python benchmarks/serving.py MODEL.cerp...
    CERP_DATA_DIR=... python benchmarks/serving.py

Model files must say what users have seen. Without any, compact models of
Gowalla's size (29,858 users, 40,981 items, 128 dimensions, two codebooks at 99%)
with random values and the real graph are made, one for each backbone: the worst
case, for random vectors leave nothing to be excluded by `cerp.runtime.bounds`. So are a
graph filter and a LightGCN with one, which must not take longer than `ALLOWED_MILLISECONDS`
for the filter alone. The MLP is measured on one and on two cores besides, beside the bare products
of its layers (`benchmarks/tower_requests.py`). What is wanted of the MLP and of the
first recommendation (`WANTED`) is written beside what was found.

In fresh interpreters: how long the import takes, how long it takes to the first
recommendation (from the start of the interpreter, and from ``cerp.load`` on), and how much memory
that needs. Modules are compiled before, as those of an installed package are. Then requests of
one user and of 256, with seen items left out, in turn with `implicit`'s ``recommend`` on the very
same vectors, in one process; the median of each counts, over users drawn anew
for every request. The lists are checked to have the same scores. Writes
results/serving.json, or results/serving_random.json of files that are made.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

# One core, also for most of what is measured in processes of its own. Read when NumPy is loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from machine import RESULTS, machine, write_figures

from cerp.artifact import (
    ComposedEmbedding,
    Encoding,
    FilterTerm,
    Index,
    Mixing,
    Seen,
    ShippedModel,
    Table,
    backbone_name,
    write,
)
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.graph.filter import Exponents
from cerp.graph.sharpening import Sharpening
from cerp.runtime import Recommendation, Runtime, load
from cerp.runtime.vectors import vectors_of

Backbone = Literal["mf", "lightgcn", "mlp", "filter", "sharp-filter", "mixture"]

DIMENSION, LAYERS, BUCKETS, VALUES = 128, 4, 5000, 90_673
BATCH, K = 256, 10
REPEATS = {1: 400, BATCH: 20}
WARM_UP = 2
SECONDS = 15.0
"""After so long no repeat is begun: the MLP takes seconds for a batch."""
STARTS = 9
TOWER_CORES = (1, 2)
ALLOWED_IMPORT_MILLISECONDS = 150.0
ALLOWED_MILLISECONDS = {1: 5.0, BATCH: 60.0}
"""For a request of so many users of Gowalla by the filter: the least CPU time counts, because the
machine may be shared."""
WANTED = {"mlp_request_milliseconds": 5.0, "lightgcn_seconds_to_first_recommendation": 0.5}
"""On two idle cores."""
TERM = FilterTerm(Exponents(q=0.6875, p=0.59375, r=0.3125))
SHARPENING = Sharpening(m=0.75, strength=0.06076, times=2)
"""What validation chooses on Gowalla, plain and sharpened."""

MEASURE_START = """
import json, re, sys, time
import cerp
cerp.load
begun = time.process_time()
runtime = cerp.load(sys.argv[1])
first = runtime.recommend(runtime.users.decode([0])[0])
spent = time.process_time() - begun
assert len(first) == 10 and "torch" not in sys.modules
status = open("/proc/self/status").read()
print(json.dumps({"cpu_seconds_from_load": spent} | {
    name: 1024 * int(re.search(field + r":\\s+(\\d+) kB", status)[1])
    for name, field in (("resident_bytes", "VmRSS"), ("peak_resident_bytes", "VmHWM"))
}))
"""


def main() -> None:
    """Measure, print and write the figures; fail when a bar is missed."""
    try:
        from implicit.als import AlternatingLeastSquares
    except ImportError:
        raise SystemExit(
            "the package 'implicit' is what cerp is compared with, and it is not installed; "
            "install it beside cerp (pip install implicit) and run this again"
        ) from None
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL.cerp")
    kinds = get_args(Backbone)
    parser.add_argument(
        "--backbones", nargs="+", choices=kinds, default=kinds, help="of made files"
    )
    options = parser.parse_args()
    models: list[Path] = options.models
    with tempfile.TemporaryDirectory() as folder:
        compile_modules_into(folder)
        figures: dict[str, Any] = {
            "k": K,
            "batch": BATCH,
            "threads": 1,
            "machine": machine("numpy", "scipy", "implicit"),
            "import_milliseconds_beyond_interpreter": import_milliseconds(),
            "allowed_import_milliseconds": ALLOWED_IMPORT_MILLISECONDS,
            "wanted": WANTED,
            "models": {},
        }
        for path in models or random_files(Path(folder), options.backbones):
            runtime = load(path)
            rival = None
            if runtime.model.head == "dot" and runtime.model.filter is None:
                vectors = vectors_of(runtime.model)
                rival = AlternatingLeastSquares(factors=runtime.model.dim, num_threads=1)
                everyone = np.arange(len(runtime.users), dtype=np.int32)
                rival.user_factors = np.ascontiguousarray(vectors.users(everyone))
                rival.item_factors = np.array(vectors.items)
            figures["models"][path.name] = {
                "backbone": backbone_name(runtime.model),
                "facts": {
                    name: value
                    for name, value in runtime.model.facts.items()
                    if isinstance(value, str | int | float)
                },
                "users": len(runtime.users),
                "items": len(runtime.items),
                "dimension": runtime.model.dim,
                "file_bytes": path.stat().st_size,
                **start_figures(path),
                **request_figures(runtime, rival),
                **tower_figures(path, runtime),
            }
    print(json.dumps(figures, indent=1))
    write_figures(RESULTS / ("serving.json" if models else "serving_random.json"), figures)
    if models:
        refuse_missed_bars(figures)
    elif "filter" in options.backbones:
        refuse_slow_filter(figures["models"]["random-filter.cerp"])


def compile_modules_into(folder: str) -> None:
    """Let the interpreters that are started keep compiled modules there, from the first one on."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")


def refuse_slow_filter(found: dict[str, Any]) -> None:
    """Refuse a filter that takes longer than it may."""
    for size, allowed in ALLOWED_MILLISECONDS.items():
        spent = found[f"batch_{size}"]["least_cpu_milliseconds"]
        if spent > allowed:
            raise SystemExit(f"a request of {size} users takes {spent} ms of {allowed} allowed")


def random_files(folder: Path, backbones: Sequence[Backbone]) -> Iterator[Path]:
    """A file for each backbone, made when it is asked for."""
    train = Splits.load(Path(os.environ["CERP_DATA_DIR"]) / "gowalla").train
    for backbone in backbones:
        path = folder / f"random-{backbone}.cerp"
        write(path, random_model(train, backbone), Encoding(values="fp16"))
        yield path


def random_model(train: Interactions, backbone: Backbone) -> ShippedModel:
    """Codebooks with random values at random places; nothing is trained."""
    if backbone in ("filter", "sharp-filter"):
        return ShippedModel(
            facts={"method": backbone},
            users=train.users,
            items=train.items,
            head=None,
            embedding=None,
            seen=Seen(train.user_offsets, train.item),
            filter=TERM if backbone == "filter" else replace(TERM, sharpening=SHARPENING),
        )
    rng = np.random.default_rng(0)
    num_entities = train.num_users + train.num_items
    mask = np.zeros((2 * BUCKETS, DIMENSION), dtype=bool)
    mask.reshape(-1)[rng.permutation(mask.size)[:VALUES]] = True
    weight = np.where(mask, rng.standard_normal(mask.shape, dtype=np.float32), np.float32(0))
    indices = Index("modulo", BUCKETS), Index("scaled", BUCKETS)
    widths = (2 * DIMENSION, DIMENSION, DIMENSION // 2, DIMENSION // 4, 1)
    weights = {}
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        name = "first" if layer == 0 else f"rest.{layer - 1}"
        shape = (outputs, inputs)
        weights[f"{name}.weight"] = rng.standard_normal(shape, dtype=np.float32) / inputs**0.5
        weights[f"{name}.bias"] = rng.standard_normal(outputs, dtype=np.float32)
    return ShippedModel(
        facts={"method": "cerp", "values": "random, to measure speed"},
        users=train.users,
        items=train.items,
        head="tower" if backbone == "mlp" else "dot",
        embedding=ComposedEmbedding(
            tuple(
                Table(index, weight[rows], mask[rows])
                for index, rows in zip(indices, (slice(BUCKETS), slice(BUCKETS, None)), strict=True)
            )
        ),
        positions=rng.permutation(num_entities).astype(np.int32),
        layers=LAYERS if backbone in ("lightgcn", "mixture") else 0,
        weights=weights if backbone == "mlp" else {},
        seen=Seen(train.user_offsets, train.item),
        filter=replace(TERM, mixing=Mixing(4.0, 0.01)) if backbone == "mixture" else None,
    )


def import_milliseconds() -> float:
    """What ``cerp.load`` costs to have, beyond an interpreter that does nothing."""
    check = "import sys, cerp; cerp.load; sys.exit('torch' in sys.modules)"
    seconds: dict[str, list[float]] = {"pass": [], check: []}
    for _ in range(STARTS):
        for code, found in seconds.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            found.append(time.perf_counter() - started)
    return round(1e3 * (min(seconds[check]) - min(seconds["pass"])), 1)


def start_figures(path: Path) -> dict[str, Any]:
    """From the start of an interpreter to the first list, and the memory that took."""
    seconds, spent, loading, memory = [], [], [], {}
    for _ in range(5):
        started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", MEASURE_START, path], check=True, capture_output=True
        )
        seconds.append(round(time.perf_counter() - started, 3))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        memory = json.loads(done.stdout)
        loading.append(memory.pop("cpu_seconds_from_load"))
    return {
        "seconds_to_first_recommendation": min(seconds),
        "cpu_seconds_to_first_recommendation": round(min(spent), 3),
        "cpu_seconds_from_load_to_first_recommendation": round(min(loading), 3),
        **memory,
    }


def request_figures(runtime: Runtime, rival: Any) -> dict[str, Any]:
    """Milliseconds of one request, and lists per second, for both."""
    from scipy.sparse import csr_matrix

    seen, rng = runtime.model.seen, np.random.default_rng(1)
    if seen is None:
        raise SystemExit("the model does not say what users have seen; export it so")
    taken = csr_matrix(
        (np.ones(len(seen.items), dtype=np.float32), seen.items, seen.offsets),
        shape=(len(runtime.users), len(runtime.items)),
    )
    # Items that training never saw, which cerp keeps out of lists.
    hidden = np.setdiff1d(np.arange(len(runtime.items)), seen.items)
    figures: dict[str, Any] = {}
    for size, repeats in REPEATS.items():
        milliseconds: dict[str, list[float]] = {"cerp": [], **({"implicit": []} if rival else {})}
        begun, least = time.perf_counter(), float("inf")
        for repeat in range(WARM_UP + repeats):
            codes = rng.integers(len(runtime.users), size=size)
            users = runtime.users.decode(codes)
            started, before = time.perf_counter(), time.process_time()
            found = (
                [runtime.recommend(users[0], K)] if size == 1 else runtime.recommend_many(users, K)
            )
            spent = {"cerp": time.perf_counter() - started}
            processor = time.process_time() - before
            if rival:
                # Cut out beforehand, which is not timed.
                rows = taken[codes]
                started = time.perf_counter()
                theirs = rival.recommend(
                    codes, rows, N=K, filter_already_liked_items=True, filter_items=hidden
                )
                spent["implicit"] = time.perf_counter() - started
                refuse_other_lists(found, theirs[1])
            if repeat >= WARM_UP:
                least = min(least, 1e3 * processor)
                for name, taken_seconds in spent.items():
                    milliseconds[name].append(1e3 * taken_seconds)
                if time.perf_counter() - begun > SECONDS:
                    break
        figures[f"batch_{size}"] = summary(milliseconds, size)
        figures[f"batch_{size}"]["least_cpu_milliseconds"] = round(least, 3)
    return figures


def tower_figures(path: Path, runtime: Runtime) -> dict[str, Any]:
    """What requests take where there is a tower, which has its items shared out among cores."""
    if runtime.model.head != "tower":
        return {}
    script = Path(__file__).with_name("tower_requests.py")
    found = []
    for cores in TOWER_CORES:
        done = subprocess.run(
            [sys.executable, script, path],
            env={**os.environ, "OMP_NUM_THREADS": str(cores)},
            check=True,
            stdout=subprocess.PIPE,
        )
        found.append(json.loads(done.stdout))
    return {"requests_by_cores": found}


def summary(milliseconds: dict[str, list[float]], size: int) -> dict[str, Any]:
    """Medians, minima, lists per second, and the ratio of the two."""
    medians = {name: float(np.median(values)) for name, values in milliseconds.items()}
    figures: dict[str, Any] = {
        "requests": len(milliseconds["cerp"]),
        "median_milliseconds": {name: round(value, 3) for name, value in medians.items()},
        "least_milliseconds": {name: round(min(v), 3) for name, v in milliseconds.items()},
        "lists_per_second": {name: round(1e3 * size / value) for name, value in medians.items()},
    }
    if "implicit" in medians:
        figures["cerp_over_implicit"] = round(medians["cerp"] / medians["implicit"], 3)
    return figures


def refuse_other_lists(mine: list[list[Recommendation]], theirs: Any) -> None:
    """Place by place the scores must be the same; which of two equal items is first may differ."""
    scores = [[place.score for place in found] for found in mine]
    if not np.allclose(scores, theirs, rtol=1e-4, atol=1e-6):
        raise SystemExit("cerp and implicit disagree about the best items")


def refuse_missed_bars(figures: dict[str, Any]) -> None:
    """At least as fast as `implicit`, and a light import."""
    missed = [
        f"{name}, {batch}: {found[batch]['cerp_over_implicit']} times implicit"
        for name, found in figures["models"].items()
        for batch in ("batch_1", f"batch_{BATCH}")
        if found[batch].get("cerp_over_implicit", 0) > 1
    ]
    taken = figures["import_milliseconds_beyond_interpreter"]
    if taken > ALLOWED_IMPORT_MILLISECONDS:
        missed.append(f"import: {taken} ms")
    if missed:
        raise SystemExit(f"too slow: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
