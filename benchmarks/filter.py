"""What the training graph alone is worth: filter and low-pass term.

    CERP_DATA_DIR=... python benchmarks/filter.py [--data gowalla ...] [--low-pass | --serving]

On Gowalla, ml-1m, lastfm, amazon-beauty and the embedded synthetic data:

- the exponents of the graph filter, searched on validation, and what they have there and on
  test, which is read once, at the end;
- seconds of the search, from loaded data, of the wall clock and of the processors;
- milliseconds that one user and 256 users take at serving (scores and the ten best), on one
  core: the median and the slowest of users drawn at random, and the one with the most paths;
- entries and bytes of the item-item matrix that is not needed for it;
- with --low-pass, what a term of leading singular vectors adds.

With --serving, only the milliseconds at serving, by the exponents of results/filter.json.

Writes results/filter.json, where data sets that were not asked for keep their figures; fails
where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from typing import Any

# What is timed at serving is one core. Read when NumPy is loaded.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from machine import RESULTS, machine, write_figures

import cerp
from cerp.data.splits import Splits
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.evaluate import Scorer, evaluate
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter
from cerp.graph.search import search_exponents
from cerp.graph.svd_term import FilterWithLowPass, search_low_pass

DATA_SETS = ("gowalla", "ml-1m", "lastfm", "amazon-beauty", "synthetic")
BARS = {"gowalla": 0.1255, "ml-1m": 0.360, "lastfm": 0.211, "amazon-beauty": 0.047}
"""Test NDCG@10 of the filter."""
REPEATS, USERS = 9, 256
RESULT = RESULTS / "filter.json"


def main() -> None:
    """Measure, print and write the figures; fail when a bar is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", choices=DATA_SETS, default=DATA_SETS)
    parser.add_argument("--low-pass", action="store_true")
    parser.add_argument("--serving", action="store_true")
    asked = parser.parse_args()
    figures = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    missed = []
    for name in asked.data:
        splits = cerp.load_splits(name)
        if asked.serving:
            measure_serving_again(splits, figures[name])
            write_figures(RESULT, figures)
            continue
        found = filter_figures(splits)
        model = GraphFilter(Edges.of(splits.train), Exponents(*found["exponents"].values()))
        found["serving"] = serving(model)
        found["item_item_matrix"] = item_item_matrix(model.edges)
        if found["test"]["ndcg@10"] < BARS.get(name, 0):
            missed.append(f"{name}: {found['test']['ndcg@10']} is below {BARS[name]}")
        if asked.low_pass:
            found["low_pass"] = low_pass_figures(splits, model)
        found["machine"] = machine("numpy", "scipy")
        figures[name] = figures.get(name, {}) | found
        print(json.dumps({name: found}, indent=1), flush=True)
        write_figures(RESULT, figures)
    if missed:
        raise SystemExit("; ".join(missed))


def measure_serving_again(splits: Splits, found: dict[str, Any]) -> None:
    """Write new milliseconds, and the machine they are of, over those of before."""
    exponents = Exponents(*found["exponents"].values())
    found["serving"] = serving(GraphFilter(Edges.of(splits.train), exponents))
    found["serving"]["machine"] = machine("numpy", "scipy")
    print(json.dumps(found["serving"], indent=1), flush=True)


def filter_figures(splits: Splits) -> dict[str, Any]:
    """Exponents from validation, and what they have on test."""
    clock, used = time.perf_counter(), processor_seconds()
    found = search_exponents(splits)
    seconds, processor = time.perf_counter() - clock, processor_seconds() - used
    model = GraphFilter(Edges.of(splits.train), found.exponents)
    return {
        "exponents": {name: getattr(found.exponents, name) for name in ("q", "p", "r")},
        "valid": {found.metric: round(found.score, 5)},
        "test": on_test(model, splits),
        "popularity": on_test(Popularity(splits.train), splits),
        "trials": len(found.trials),
        "search_seconds": round(seconds, 1),
        "search_processor_seconds": round(processor, 1),
    }


def low_pass_figures(splits: Splits, model: GraphFilter) -> dict[str, Any]:
    """What leading singular vectors add to the filter."""
    found = search_low_pass(splits, model)
    both = FilterWithLowPass(model, found.low_pass, found.alpha)
    return {
        "rank": found.low_pass.rank,
        "alpha": found.alpha,
        "valid": {
            "both": round(found.score, 5),
            "filter": round(found.filter_score, 5),
            "low_pass": round(found.low_pass_score, 5),
        },
        "test": {
            "both": on_test(both, splits),
            "low_pass": on_test(found.low_pass, splits),
        },
        "seconds": round(found.seconds, 1),
    }


def on_test(scorer: Scorer, splits: Splits) -> dict[str, float]:
    """NDCG@10 and recall@10."""
    means = evaluate(scorer, splits, ks=(10,)).mean
    return {name: round(means[name], 5) for name in ("ndcg@10", "recall@10")}


def serving(model: GraphFilter) -> dict[str, Any]:
    """Milliseconds for the ten best of one user and of 256."""
    edges = model.edges
    reached = np.add.reduceat(
        np.append(edges.user_degrees[edges.users], 0), edges.item_offsets[:-1]
    )
    reached[edges.item_degrees == 0] = 0
    paths = np.bincount(
        np.repeat(np.arange(edges.num_users), edges.user_degrees),
        weights=reached[edges.items],
        minlength=edges.num_users,
    )
    drawn = np.random.default_rng(0).permutation(edges.num_users)[:USERS].astype(np.int32)
    alone = [best_milliseconds(model, drawn[[place]]) for place in range(32)]
    return {
        "one_user_median_ms": round(float(np.median(alone)), 3),
        "one_user_slowest_of_32_ms": round(max(alone), 3),
        "one_user_with_most_paths_ms": round(
            best_milliseconds(model, np.array([paths.argmax()], dtype=np.int32)), 3
        ),
        "256_users_ms": round(best_milliseconds(model, np.sort(drawn)), 1),
    }


def best_milliseconds(model: GraphFilter, users: np.typing.NDArray[np.int32]) -> float:
    """The fastest of several times, for the machine may be shared."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        model.best([model.edges.history(int(user)) for user in users], 10)
        times.append(1e3 * (time.perf_counter() - started))
    return min(times)


def item_item_matrix(edges: Edges) -> dict[str, int]:
    """Pairs of items with a common user, and their bytes as float64 with int32 columns."""
    from scipy.sparse import csr_array

    shape = (edges.num_users, edges.num_items)
    taken = csr_array(
        (np.ones(len(edges), np.float32), edges.items, edges.user_offsets), shape=shape
    )
    entries = int((taken.T.tocsr() @ taken).nnz)
    return {"entries": entries, "bytes": 12 * entries, "bytes_of_edges": 4 * len(edges)}


def processor_seconds() -> float:
    """What this process has used of all cores."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
