"""How long lists for everybody take, on all cores, beside the batch call of `implicit`.

    pip install implicit
    CERP_DATA_DIR=... python benchmarks/batch.py

A model of Gowalla's size (29,858 users, 40,981 items, 128 dimensions; random vectors and the real
graph) ranks 50 items for every user, with seen items left out. Timed in turn, in one process: the
lists alone (`cerp.runtime.batch`), all of ``cerp recommend --all-users`` from the loaded model
to a table in CSV and in Parquet, and ``recommend`` of `implicit` with all users at once on the very
same vectors. The lists are checked to have the same scores. Writes results/batch.json.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# One thread a product: workers share the cores, here and in `implicit`. Read with NumPy.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from machine import RESULTS, machine, peak_memory, write_figures
from scipy.sparse import csr_matrix

from cerp.artifact import ComposedEmbedding, Index, Seen, ShippedModel, Table
from cerp.cli.nightly import Nightly, write_nightly
from cerp.cores import available_cores
from cerp.data.datasets import load
from cerp.runtime import Runtime
from cerp.runtime.batch import Request, lists_in_blocks
from cerp.runtime.vectors import vectors_of

DIMENSION, K, REPEATS = 128, 50, 3
ALLOWED_RATIO = 1.3


def main() -> None:
    """Measure, print and write the figures; fail when the bar is missed."""
    try:
        from implicit.als import AlternatingLeastSquares
    except ImportError:
        raise SystemExit(
            "the package 'implicit' is what cerp is compared with, and it is not installed; "
            "install it beside cerp (pip install implicit) and run this again"
        ) from None
    runtime = random_model()
    everyone = np.arange(len(runtime.users), dtype=np.int32)
    vectors, seen = vectors_of(runtime.model), runtime.model.seen
    assert seen is not None
    rival = AlternatingLeastSquares(factors=DIMENSION, num_threads=available_cores())
    rival.user_factors, rival.item_factors = vectors.users(everyone), vectors.items
    shape = (len(runtime.users), len(runtime.items))
    taken = csr_matrix(
        (np.ones(len(seen.items), dtype=np.float32), seen.items, seen.offsets), shape=shape
    )

    def of_rival() -> Any:
        return rival.recommend(everyone, taken, N=K, filter_already_liked_items=True)

    def lists() -> list[Any]:
        return list(lists_in_blocks(runtime, everyone, Request(K)))

    with tempfile.TemporaryDirectory() as folder:
        asked = Nightly(K, True, None, None, None, None, None, None, None)

        def to_table(name: str) -> Callable[[], Any]:
            path = Path(folder) / name
            return lambda: write_nightly(runtime, asked, path, None, skip_unknown=True)

        timed = {
            "implicit": of_rival,
            "lists": lists,
            "csv": to_table("lists.csv"),
            "parquet": to_table("lists.parquet"),
        }
        refuse_other_lists(lists(), of_rival()[1])
        seconds = {name: least_seconds(call) for name, call in timed.items()}
    figures = {
        "users": len(runtime.users),
        "items": len(runtime.items),
        "k": K,
        "workers": available_cores(),
        "seconds": seconds,
        "ratio_to_implicit": {
            name: round(found / seconds["implicit"], 3) for name, found in seconds.items()
        },
        "allowed_ratio": ALLOWED_RATIO,
        "peak_resident_bytes": peak_memory(),
        "machine": machine("numpy", "implicit"),
    }
    write_figures(RESULTS / "batch.json", figures)
    print(figures)
    ratios: Any = figures["ratio_to_implicit"]
    if max(ratios["csv"], ratios["parquet"]) > ALLOWED_RATIO:
        raise SystemExit(f"lists for everybody take more than {ALLOWED_RATIO} times as long")


def random_model() -> Runtime:
    """Gowalla's graph with random vectors."""
    # Every item has a taker in it: lists leave out those that have none.
    train = load("gowalla").train_and_valid
    rng = np.random.default_rng(0)
    rows = train.num_users + train.num_items
    table = rng.normal(size=(rows, DIMENSION)).astype(np.float32)
    seen = Seen(train.user_offsets, train.item)
    embedding = ComposedEmbedding((Table(Index("identity"), table),))
    model = ShippedModel(
        facts={}, users=train.users, items=train.items, head="dot", embedding=embedding, seen=seen
    )
    return Runtime(model)


def refuse_other_lists(blocks: list[Any], scores: Any) -> None:
    """The same scores, in the same order, up to rounding."""
    own = np.concatenate([rows.scores for rows in blocks]).reshape(scores.shape)
    assert np.allclose(own, scores, rtol=1e-4, atol=1e-4), "the lists have other scores"


def least_seconds(call: Callable[[], Any]) -> float:
    """Of several calls: the machine may be shared."""
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return round(min(found), 3)


if __name__ == "__main__":
    main()
