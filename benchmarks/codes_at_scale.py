"""Time and peak memory of learned codes where neither vectors nor codes may fill the memory.

    python benchmarks/codes_at_scale.py [--entities 30330000] [--interactions 50000000]

Made-up, seeded interactions: 69% of the entities are users, each of one of a thousand tastes;
four of five pairs are within a taste, and some items are far more popular than others. Codes are
those of `cerp train` with default memory: as many singular vectors as a gigabyte holds, books
fitted to a sample, codes of all others chosen a stretch at a time. Adds its size to
results/codes_at_scale.json; one size for each process, since memory is counted at its peak.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from machine import RESULTS, described, peak_memory, write_figures
from memory import CountedIds

from cerp.assignment.code_rule import vector_rank
from cerp.assignment.residual_kmeans import graph_codes
from cerp.data.interactions import Interactions

ENTITIES, INTERACTIONS = 30_330_000, 50_000_000
SHARE_OF_USERS = 0.69
TASTES, FAITHFUL, SKEW = 1000, 0.8, 3
BOOKS, ROWS = 4, 256
ALLOWED_BYTES = 3_000_000_000
STRETCH = 1 << 20
RESULT = RESULTS / "codes_at_scale.json"


def main() -> None:
    """Make the data, learn the codes, print and write the figures; fail beyond the memory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entities", type=int, default=ENTITIES)
    parser.add_argument("--interactions", type=int, default=INTERACTIONS)
    options = parser.parse_args()
    train = made_up(options.entities, options.interactions)
    after_data = peak_memory()
    started, cores = time.perf_counter(), time.process_time()
    codes = graph_codes(train, books=BOOKS, rows=ROWS)
    figures = {
        "entities": options.entities,
        "interactions": len(train),
        "books": BOOKS,
        "rows": ROWS,
        "rank_wanted": vector_rank(options.entities, len(train)),
        "rank": codes.books.shape[2],
        "fitted_to": codes.fitted_to,
        "error": round(codes.error, 4),
        "seconds": round(time.perf_counter() - started, 1),
        "core_seconds": round(time.process_time() - cores, 1),
        "peak_bytes_after_data": after_data,
        "peak_bytes": peak_memory(),
        "allowed_bytes": ALLOWED_BYTES,
        "machine": described("cpu") | {"threads": torch.get_num_threads()},
    }
    print(json.dumps(figures, indent=1))
    known = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else []
    others = [row for row in known if row["entities"] != options.entities]
    write_figures(RESULT, sorted([*others, figures], key=lambda row: row["entities"]))
    if peak_memory() > ALLOWED_BYTES:
        raise SystemExit(f"{peak_memory():,} bytes; {ALLOWED_BYTES:,} are allowed")


def made_up(entities: int, interactions: int) -> Interactions:
    """Seeded pairs, a stretch at a time: what is held is little more than the pairs themselves."""
    rng = np.random.default_rng(0)
    users = round(entities * SHARE_OF_USERS)
    items = entities - users
    user = rng.integers(users, size=interactions, dtype=np.int32)
    user.sort()
    item = np.empty_like(user)
    shelf = items // TASTES
    taste = rng.integers(TASTES, size=users, dtype=np.int32)
    for start in range(0, interactions, STRETCH):
        part = slice(start, start + STRETCH)
        popular = rng.random(len(user[part])) ** SKEW
        own = taste[user[part]] * shelf + popular * shelf
        faithful = rng.random(len(own)) < FAITHFUL
        item[part] = np.where(faithful, own, popular * items)
    distinct = np.ones(interactions, dtype=bool)
    start = 0
    while start < interactions:  # items ascend within a user; stretches end where users do
        last = user[min(start + STRETCH, interactions) - 1]
        stop = int(np.searchsorted(user, last, side="right"))
        key = user[start:stop].astype(np.int64) * items + item[start:stop]
        key.sort()
        item[start:stop] = key % items
        distinct[start + 1 : stop] = key[1:] != key[:-1]
        start = stop
    return Interactions(user[distinct], item[distinct], CountedIds(users), CountedIds(items))


if __name__ == "__main__":
    main()
