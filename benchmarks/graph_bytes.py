"""Bytes of an interaction in a .cerp file; writes results/graph_bytes.json.

    CERP_DATA_DIR=... python benchmarks/graph_bytes.py

Under the spectral order, what else would be simple and what it would take:
int32 column indices with row pointers, the same gaps as two byte planes that are
deflated, and Rice codes with the best parameter of each row. Beside them the
entropy of the gaps' classes with their extra bits (deflate can go below it, since
it adapts to each part of the graph), and our code under the native and a shuffled
order. Row counts are included everywhere. Decoding is timed against inflating the
byte planes.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from machine import RESULTS, machine, write_figures

from cerp.artifact.edges import decode_seen, encode_seen
from cerp.artifact.model import Seen
from cerp.artifact.numbers import decode_numbers, encode_numbers
from cerp.artifact.tensors import TensorReader, total_bytes
from cerp.assignment.ordering import order
from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits

DATA_SETS = ("gowalla", "ml-1m", "lastfm", "amazon-beauty")
LIMITS = {"gowalla": 1.25}
REPEATS = 5
RESULT = RESULTS / "graph_bytes.json"


def main() -> None:
    """Measure every data set, print and write the figures; fail beyond a limit."""
    root = Path(os.environ["CERP_DATA_DIR"])
    figures = {name: measure(Splits.load(root / name).train) for name in DATA_SETS}
    result = {"data": figures, "machine": machine("numpy")}
    print(json.dumps(result, indent=1))
    write_figures(RESULT, result)
    for name, limit in LIMITS.items():
        found = figures[name]["bytes_per_edge"]["ours"]
        if found > limit:
            raise SystemExit(f"{name}: {found:.3f} bytes an edge are more than {limit}")


def measure(train: Interactions) -> dict[str, Any]:
    """Bytes an edge by every code, and seconds to decode ours."""
    by_user = np.lexsort((train.item, train.user))
    counts = np.bincount(train.user, minlength=train.num_users)
    seen = Seen(np.append(0, np.cumsum(counts)), train.item[by_user])
    positions = order(train, "spectral", seed=0)
    coded = encode_seen(seen, train.num_items, positions)
    reader = TensorReader(coded)
    gaps = decode_numbers(reader.under("gaps"), len(seen.items))
    ranked_counts = decode_numbers(reader.under("counts"), train.num_users)
    count_bytes = total_bytes(encode_numbers(ranked_counts))
    size = {
        "int32_csr": 4 * (len(gaps) + len(counts) + 1),
        "byte_planes_deflated": count_bytes + sum(map(len, byte_planes(gaps))),
        "rice_per_row": count_bytes + rice_bytes(gaps, ranked_counts),
        "class_entropy": count_bytes + class_entropy_bytes(gaps),
        "ours": total_bytes(coded),
        "ours_native_order": total_bytes(encode_seen(seen, train.num_items, None)),
        "ours_shuffled_order": total_bytes(
            encode_seen(seen, train.num_items, order(train, "shuffled", seed=0))
        ),
    }
    return {
        "edges": len(gaps),
        "bytes_per_edge": {name: round(bytes_ / len(gaps), 4) for name, bytes_ in size.items()},
        "seconds": timings(reader, train, positions, len(gaps), byte_planes(gaps)),
    }


def byte_planes(gaps: Int64Array) -> list[bytes]:
    """The low and the high bytes of gaps below 65,536, deflated."""
    planes = gaps.astype("<u2").view(np.uint8).reshape(-1, 2).T
    return [zlib.compress(plane.tobytes(), 9) for plane in planes]


def rice_bytes(gaps: Int64Array, counts: Int64Array) -> int:
    """Unary quotients and fixed remainders, the best of 16 parameters for each row in 4 bits."""
    begins = (np.cumsum(counts) - counts)[counts > 0]
    bits = [np.add.reduceat((gaps >> k) + 1 + k, begins) for k in range(16)]
    return int(np.min(bits, axis=0).sum() + 4 * len(begins)) // 8


def class_entropy_bytes(gaps: Int64Array) -> int:
    """The classes of `cerp.artifact.numbers` by their frequencies, and their extra bits."""
    width = np.floor(np.log2(gaps + 4)).astype(np.int64) - 2
    classes = 4 * width + ((gaps + 4) >> width) - 4
    frequency = np.bincount(classes)[np.unique(classes)] / len(classes)
    entropy = -(frequency * np.log2(frequency)).sum()
    return int(entropy * len(gaps) + width.sum()) // 8


def timings(
    reader: TensorReader,
    train: Interactions,
    positions: Int32Array,
    edges: int,
    planes: list[bytes],
) -> dict[str, float]:
    """The best of some alternating runs."""
    seconds: dict[str, list[float]] = {"decode": [], "inflate_byte_planes": []}
    for _ in range(REPEATS):
        started = time.perf_counter()
        decode_seen(reader, train.num_users, train.num_items, edges, positions)
        seconds["decode"].append(time.perf_counter() - started)
        started = time.perf_counter()
        for plane in planes:
            zlib.decompress(plane)
        seconds["inflate_byte_planes"].append(time.perf_counter() - started)
    return {name: round(min(found), 4) for name, found in seconds.items()}


if __name__ == "__main__":
    main()
