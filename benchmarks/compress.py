"""`cerp.compress` beside faiss at equal bytes, and what a million vectors take.

    python benchmarks/compress.py --data gowalla -o results/compress.json
    python benchmarks/compress.py --million -o results/compress.json

The vectors are those of Gowalla's training graph (`cerp.assignment.graph_vectors`, 64 directions,
length 1): 70,839 of them. faiss writes each with a number of bytes; its books and its rotation, in
32 bits, count as well, and cerp has as many bytes in all. What is compared are vectors read back:
which of the ten nearest others of 2,000 vectors, by cosine, are still the ten nearest. The second
figure has the original vector look among those read back. faiss's residual quantiser is trained
on a sample, since it takes long; its codes are those of all vectors.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from machine import machine

from cerp.compression.measures import unit
from cerp.files import write_json

Array = npt.NDArray[np.float32]

BYTES = (2, 4, 8, 16)
DIM, ROWS = 64, 256
QUERIES, NEAREST = 2000, 10
RESIDUAL_TRAINING = 1 << 14
LARGE, LARGE_DIM, LARGE_BUDGET = 1_000_000, 128, "8MB"

CHILD = """
import resource, sys, time
import cerp
started = time.process_time(), time.monotonic()
made = cerp.compress(sys.argv[1], budget=sys.argv[2], verbose=False)
made.save(sys.argv[3])
print(time.process_time() - started[0], time.monotonic() - started[1],
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, made.file_bytes,
      made.score, made.method, made.settings.replace(" ", "_"))
"""


def graph_table(data: str) -> Array:
    """Vectors of a data set's users and items."""
    from cerp.assignment.graph_vectors import graph_vectors
    from cerp.data.datasets import load

    return graph_vectors(load(data).train, rank=DIM, damping=1.0, seed=0, unit=True).table()


def recalls(original: Array, read: Array) -> dict[str, float]:
    """The share of the nearest others that stay nearest, asked by read and by original vectors."""
    asked = np.random.default_rng(0).choice(len(original), QUERIES, replace=False)
    before, after = unit(original), unit(read)
    true = _nearest(before, before[asked], asked)
    found = {"read": after[asked], "original": before[asked]}
    return {
        f"asked_by_{name}": round(_shared(true, _nearest(after, queries, asked)), 4)
        for name, queries in found.items()
    }


def _nearest(vectors: Array, queries: Array, own: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    found = np.empty((len(queries), NEAREST), dtype=np.int64)
    for start in range(0, len(queries), 250):
        part = slice(start, start + 250)
        products = queries[part] @ vectors.T
        products[np.arange(len(products)), own[part]] = -np.inf
        found[part] = np.argpartition(-products, NEAREST, axis=1)[:, :NEAREST]
    return found


def _shared(true: npt.NDArray[np.int64], found: npt.NDArray[np.int64]) -> float:
    both = zip(true, found, strict=True)
    return float(np.mean([len(np.intersect1d(*pair)) for pair in both])) / NEAREST


def by_faiss(vectors: Array, name: str, size: int) -> tuple[Array, int]:
    """Vectors read back, and all bytes that this takes."""
    import faiss

    faiss.omp_set_num_threads(1)
    count = len(vectors)
    if name == "opq":
        index = faiss.index_factory(DIM, f"OPQ{size},PQ{size}x8")
        index.train(vectors)
        return index.sa_decode(index.sa_encode(vectors)), count * size + 4 * DIM * (ROWS + DIM)
    quantizer = faiss.ResidualQuantizer(DIM, size, 8)
    drawn = np.random.default_rng(0).choice(count, RESIDUAL_TRAINING, replace=False)
    quantizer.train(vectors[np.sort(drawn)])
    read = quantizer.decode(quantizer.compute_codes(vectors))
    return read, count * size + 4 * DIM * ROWS * size


def beside_faiss(vectors: Array, name: str, size: int) -> dict[str, Any]:
    """One of faiss's quantisers and cerp at the same number of bytes."""
    import cerp

    started = time.process_time()
    read, total = by_faiss(vectors, name, size)
    theirs = {**recalls(vectors, read), "cpu_seconds": round(time.process_time() - started, 1)}
    started = time.process_time()
    made = cerp.compress(vectors, budget=total, verbose=False)
    seconds = time.process_time() - started
    ours = {
        "file_bytes": made.file_bytes,
        "method": made.method,
        "settings": made.settings,
        **recalls(vectors, made.vectors()),
        "cpu_seconds": round(seconds, 1),
    }
    return {"rival": name, "bytes_a_row": size, "total_bytes": total, "faiss": theirs, "cerp": ours}


def a_million() -> dict[str, Any]:
    """Time and memory of a process that compresses 1,000,000 x 128 vectors in a file."""
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "vectors.npy", Path(folder) / "small.cerp"
        rng = np.random.default_rng(0)
        centres = rng.standard_normal((2000, LARGE_DIM), dtype=np.float32)
        shape = (LARGE, LARGE_DIM)
        made = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        for start in range(0, LARGE, 50_000):
            noise = rng.standard_normal((50_000, LARGE_DIM), dtype=np.float32)
            made[start : start + 50_000] = centres[rng.integers(0, 2000, 50_000)] + 0.5 * noise
        made.flush()
        arguments = [sys.executable, "-c", CHILD, str(path), LARGE_BUDGET, str(small)]
        answer = subprocess.run(
            arguments, capture_output=True, text=True, check=True
        ).stdout.split()
    cpu, wall, peak, size, score = map(float, answer[:5])
    return {
        "vectors": list(shape),
        "source_bytes": 4 * LARGE * LARGE_DIM,
        "budget": LARGE_BUDGET,
        "file_bytes": int(size),
        "method": answer[5],
        "settings": answer[6].replace("_", " "),
        "recall@10_held_out": score,
        "cpu_seconds": round(cpu, 1),
        "wall_seconds": round(wall, 1),
        "peak_bytes": int(peak),
    }


def main() -> None:
    """Measure what is asked for, and add it to the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", default="gowalla")
    parser.add_argument("--rivals", nargs="*", default=["opq", "residual"])
    parser.add_argument("--bytes", nargs="*", type=int, default=list(BYTES))
    parser.add_argument("--million", action="store_true")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    there = json.loads(given.output.read_text()) if given.output.exists() else {}
    there |= {"machine": machine(), "vectors": {"data": Path(given.data).name, "dim": DIM}}
    if given.million:
        there["million"] = a_million()
        write_json(given.output, there)
        return
    vectors = graph_table(given.data)
    there["vectors"]["count"] = len(vectors)
    for size in given.bytes:
        for name in given.rivals:
            found = beside_faiss(vectors, name, size)
            print(json.dumps(found))
            kept = [
                one
                for one in there.get("beside", [])
                if (one["rival"], one["bytes_a_row"]) != (name, size)
            ]
            there["beside"] = sorted(
                [*kept, found], key=lambda one: (one["bytes_a_row"], one["rival"])
            )
            write_json(given.output, there)


if __name__ == "__main__":
    main()
