"""How long `cerp.read` takes on five million rows, next to bare readers that only encode.

Every reader runs in a process of its own, so that its peak memory is its own; the
readers take turns, and the fastest of several runs counts. All of them turn the two
columns of string ids into integer codes. "pairs" reads those two columns, "times"
the timestamps too. JSON lines are read by Python's parser besides, which
is what a script would do, and line by line by cerp, which is what was there first: `cerp.read` is
to be many times as fast. Beyond the bare readers,
`cerp.read` finds the layout, checks every id, orders the ids, sorts the pairs and merges those
that repeat.

    python benchmarks/reading.py --output results/reading.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from machine import RESULTS, machine, peak_memory, write_figures

USERS, ITEMS = 370_000, 120_000
IDS = ("user_id", "item_id")
LIMIT_RATIO, LIMIT_MB = 1.25, 1200


def generate(folder: Path, rows: int) -> None:
    """A seeded log with long-tailed users and items: CSV, Parquet and JSON lines."""
    import duckdb
    import pyarrow as pa
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)

    def column(count: int, prefix: str, length: int, tail: float) -> Any:
        letters = rng.choice(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"), (count, length))
        names = [prefix + "".join(row) for row in letters]
        weights = rng.pareto(tail, count) + 1
        codes = rng.choice(count, rows, p=weights / weights.sum())
        return pa.DictionaryArray.from_arrays(codes.astype(np.int32), names).cast(pa.string())

    table = pa.table(
        {
            "user_id": column(USERS, "A", 12, tail=1.5),
            "item_id": column(ITEMS, "B0", 8, tail=1.0),
            "rating": rng.integers(1, 6, rows).astype(np.int8),
            "timestamp": rng.integers(10**9, 11 * 10**8, rows),
        }
    )
    csv.write_csv(table, folder / "log.csv")
    parquet.write_table(table, folder / "log.parquet")
    duckdb.sql(f"copy '{folder / 'log.parquet'}' to '{folder / 'log.jsonl'}' (format json)")


def duckdb_load(path: Path, *, times: bool) -> Any:
    """DuckDB: the columns into a table, nothing encoded. A floor, not a rival."""
    import duckdb

    scan = f"read_csv('{path}', header=true, delim=',', all_varchar=true)"
    if path.suffix == ".parquet":
        scan = f"read_parquet('{path}')"
    elif path.suffix == ".jsonl":
        kinds = "{user_id: 'VARCHAR', item_id: 'VARCHAR', timestamp: 'BIGINT'}"
        scan = f"read_json('{path}', format='newline_delimited', columns={kinds})"
    columns = ", ".join([*IDS, *(["timestamp::bigint as timestamp"] if times else [])])
    connection = duckdb.connect()
    connection.execute(f"create temp table log as select {columns} from {scan}")
    return connection


def duckdb_codes(path: Path, *, times: bool) -> Any:
    """DuckDB: ids numbered by first appearance, rows joined to their codes."""
    connection = duckdb_load(path, times=times)
    for name in IDS:
        connection.execute(
            f"create temp table {name}s as select {name}, row_number() over (order by first) - 1 "
            f"as code from (select {name}, min(rowid) as first from log group by 1)"
        )
    return connection.execute(
        f"select user_ids.code::int as u, item_ids.code::int as i{', timestamp' * times} from log "
        "join user_ids using (user_id) join item_ids using (item_id)"
    ).fetchnumpy()


def pyarrow_codes(path: Path, *, times: bool) -> Any:
    """PyArrow: dictionary types asked of its reader, then one dictionary per column."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    columns = [*IDS, *(["timestamp"] if times else [])]
    if path.suffix == ".parquet":
        return parquet.read_table(path, columns=columns, read_dictionary=IDS).unify_dictionaries()
    kinds = dict.fromkeys(IDS, pa.dictionary(pa.int32(), pa.string()))
    convert = csv.ConvertOptions(column_types=kinds, include_columns=columns)
    return csv.read_csv(path, convert_options=convert).unify_dictionaries()


def json_codes(path: Path, *, times: bool) -> Any:
    """Python's JSON parser, line by line, with a dictionary of codes for each column."""
    codes: tuple[dict[str, int], dict[str, int]] = {}, {}
    pairs, moments = [], []
    with path.open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            pairs.append(
                [
                    seen.setdefault(record[name], len(seen))
                    for name, seen in zip(IDS, codes, strict=True)
                ]
            )
            if times:
                moments.append(record["timestamp"])
    return np.array(pairs, dtype=np.int32), np.array(moments)


def cerp_read(path: Path, *, times: bool) -> Any:
    """`cerp.read`."""
    from cerp.data.readers import read

    return read(path, time=None if times else False)


def cerp_by_line(path: Path, *, times: bool) -> Any:
    """`cerp.read` as it was at first for JSON lines, and still is where a line is odd."""
    from unittest.mock import patch

    with (
        patch("cerp.data.formats.json_lines._read_regular", lambda *_: None),
        patch("cerp.data.formats.json_lines._read_by_duckdb", lambda *_: None),
    ):
        return cerp_read(path, times=times)


READERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "duckdb, load only": ("duckdb", duckdb_load),
    "duckdb to codes": ("duckdb", duckdb_codes),
    "pyarrow to codes": ("pyarrow.csv,pyarrow.parquet", pyarrow_codes),
    "json to codes": ("json", json_codes),
    "cerp.read, line by line": ("duckdb,cerp.data.readers", cerp_by_line),
    "cerp.read": ("duckdb,cerp.data.readers", cerp_read),
}
BARE = ("duckdb to codes", "pyarrow to codes")
CASES = [(kind, what) for kind in ("csv", "parquet", "jsonl") for what in ("pairs", "times")]
BY_LINE = ("json to codes", "cerp.read, line by line")
OTHERS = {"csv": BY_LINE, "parquet": BY_LINE, "jsonl": ("pyarrow to codes",)}
"""What does not read a kind of file."""


def run_here(reader: str, path: Path, what: str) -> dict[str, float]:
    """Time one reader in this process; imports do not count."""
    modules, function = READERS[reader]
    for module in modules.split(","):
        __import__(module)
    start, before = time.perf_counter(), time.process_time()
    result = function(path, times=what == "times")
    seconds, spent = time.perf_counter() - start, time.process_time() - before
    del result
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(spent, 3),
        "peak_mb": round(peak_memory() / 1e6),
    }


def measure(
    folder: Path, runs: int, kinds: Collection[str]
) -> dict[str, dict[str, list[dict[str, float]]]]:
    """All runs of all readers: case -> reader -> runs, interleaved."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for _ in range(runs):
        for kind, what in CASES:
            for reader in READERS:
                if kind not in kinds or reader in OTHERS[kind]:
                    continue
                command = [sys.executable, __file__, "--run", reader, what]
                path = str(folder / f"log.{kind}")
                done = subprocess.run([*command, path], capture_output=True, check=True, text=True)
                of_case = found.setdefault(f"{kind}, {what}", {})
                of_case.setdefault(reader, []).append(json.loads(done.stdout))
    return found


def summarise(runs: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """The fastest run of each reader, and cerp against the fastest bare one."""
    fastest = {reader: min(run["seconds"] for run in of_one) for reader, of_one in runs.items()}
    ratio = fastest["cerp.read"] / min(fastest[reader] for reader in BARE if reader in fastest)
    peak = max(run["peak_mb"] for run in runs["cerp.read"])
    ratios = {"ratio_to_fastest_bare": round(ratio, 2)}
    for reader in BY_LINE:
        if reader in fastest:
            ratios[f"times_as_fast_as_{reader}"] = round(fastest[reader] / fastest["cerp.read"], 1)
    spent = {reader: min(run["cpu_seconds"] for run in each) for reader, each in runs.items()}
    return {
        "fastest_seconds": fastest,
        "least_cpu_seconds": spent,
        **ratios,
        "runs_within_ratio": _runs_within(runs),
        "peak_mb": peak,
        "within_limits": ratio <= LIMIT_RATIO and peak <= LIMIT_MB,
        "runs": runs,
    }


def _runs_within(runs: dict[str, list[dict[str, float]]]) -> str:
    """In how many runs cerp kept within the ratio to the fastest bare reader of the same run."""
    bare = zip(*(runs[reader] for reader in BARE if reader in runs), strict=True)
    fastest = [min(run["seconds"] for run in of_all) for of_all in bare]
    ours = [run["seconds"] for run in runs["cerp.read"]]
    within = sum(our <= LIMIT_RATIO * best for our, best in zip(ours, fastest, strict=True))
    return f"{within} of {len(ours)}"


def main() -> None:
    """Generate, measure, print a table and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=5)
    kinds = list(OTHERS)
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds, help="of files")
    parser.add_argument("--output", type=Path, default=RESULTS / "reading.json")
    parser.add_argument(
        "--run", nargs=3, metavar=("READER", "WHAT", "FILE"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.run:
        reader, what, file = options.run
        print(json.dumps(run_here(reader, Path(file), what)))
        return
    figures: dict[str, Any] = {
        "rows": options.rows,
        "machine": machine("duckdb", "pyarrow", "numpy"),
    }
    with tempfile.TemporaryDirectory() as scratch:
        with ProcessPoolExecutor(1) as apart:  # a child's peak memory starts at its parent's
            apart.submit(generate, Path(scratch), options.rows).result()
        found = measure(Path(scratch), options.runs, options.kinds)
    figures |= {case: summarise(runs) for case, runs in found.items()}
    for case in found:
        summary = figures[case]
        timed = ", ".join(f"{name} {s:.2f} s" for name, s in summary["fastest_seconds"].items())
        ratio, peak = summary["ratio_to_fastest_bare"], summary["peak_mb"]
        within = summary["runs_within_ratio"]
        print(f"{case}: {timed}; ratio {ratio:.2f}, within in {within}, peak {peak} MB")
    write_figures(options.output, figures)


if __name__ == "__main__":
    main()
