"""How fast the tower of an MLP file recommends, on as many cores as OMP_NUM_THREADS says.

    OMP_NUM_THREADS=2 python benchmarks/tower_requests.py MODEL.cerp

`benchmarks/serving.py` runs this in a process for each number of cores, because NumPy reads the
variable when it is loaded. Prints, as JSON: the milliseconds of requests of one user with seen
items left out, one after the other; the lists per second of two callers at once; and the
milliseconds of the float32 products of the layers after the first with all items, as they are: no
list can take less without leaving items out. The least by the clock counts too, because the
machine may be shared. ``products_for`` names the processor whose products NumPy's BLAS takes:
`OPENBLAS_CORETYPE` may name another than is there, whose products take up to twice as long.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from cerp.cores import allowed_threads
from cerp.runtime import Runtime, load

REQUESTS, WARM_UP, K = 200, 5, 10
CALLERS, TURNS = 2, 5
BARE_ROWS = 4096
"""Items that go through a layer at a time: fewer or more take longer, on one core and on two."""


def main() -> None:
    """Measure and print."""
    runtime = load(Path(sys.argv[1]))
    request, products = requests_of(runtime), products_of(runtime)
    alone = milliseconds(request)
    bare = milliseconds(products)
    figures = {
        "cores": allowed_threads(),
        "products_for": [library.get("architecture") for library in threadpool_info()],
        "median_milliseconds": round(float(np.median(alone)), 3),
        "least_milliseconds": round(min(alone), 3),
        "least_milliseconds_of_bare_products": round(min(bare), 3),
        "lists_per_second_of_two_callers": round(max(together(request) for _ in range(TURNS))),
    }
    print(json.dumps(figures))


def requests_of(runtime: Runtime) -> Callable[[], object]:
    """What asks for one list, of another user each time."""
    rng = np.random.default_rng(1)
    users = iter(runtime.users.decode(rng.integers(len(runtime.users), size=len(runtime.users))))
    return lambda: runtime.recommend(next(users), K)


def products_of(runtime: Runtime) -> Callable[[], object]:
    """What multiplies as often as one list needs."""
    weights = runtime.model.weights
    layers = [
        np.ascontiguousarray(weights[f"rest.{layer}.weight"].T, dtype=np.float32)
        for layer in range(len(weights) // 2 - 1)
    ]
    starts = range(0, len(runtime.items), BARE_ROWS)
    sizes = [min(BARE_ROWS, len(runtime.items) - start) for start in starts]
    inputs = [np.ones((BARE_ROWS, len(layer)), np.float32) for layer in layers]

    def multiply() -> None:
        for size in sizes:
            for rows, layer in zip(inputs, layers, strict=True):
                rows[:size] @ layer

    return multiply


def milliseconds(work: Callable[[], object]) -> list[float]:
    """Of each time that something is done, after some that do not count."""
    found = []
    for _ in range(WARM_UP + REQUESTS):
        started = time.perf_counter()
        work()
        found.append(1e3 * (time.perf_counter() - started))
    return found[WARM_UP:]


def together(request: Callable[[], object]) -> float:
    """Lists per second, when several callers ask at the same time, one list after the other."""

    def ask(_: int) -> None:
        for _ in range(REQUESTS // CALLERS):
            request()

    with ThreadPoolExecutor(CALLERS) as callers:
        started = time.perf_counter()
        list(callers.map(ask, range(CALLERS)))
    return REQUESTS / (time.perf_counter() - started)


if __name__ == "__main__":
    main()
