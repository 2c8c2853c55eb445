"""NDCG@10 by bytes of the file, of all that can be shipped: results/<dataset>/frontier.json.

    CERP_DATA_DIR=... python benchmarks/frontier.py --dataset lastfm --work WORK
        [--sizes 30KB,60KB,120KB] [--methods filter,neighbours,pq,rq] [--values int8] [--seed 0]
    python benchmarks/frontier.py --dataset gowalla --runs RUN... --methods full --values int4
    python benchmarks/frontier.py --dataset gowalla --collect
    PYTHONPATH=tools python benchmarks/frontier.py --dataset gowalla --check

Each method is trained for each size, chosen on validation as always, and its *file* is judged. A
row that is there is not measured again. `--runs` are folders of finished runs by `cerp train`: the
files that `cerp export --values` makes of them are judged as they are. `--collect` takes over
rows of what has been measured otherwise, where it has a file: `*-runs.json` of the paper's recipes,
`students.json`, `mixtures.json`, `neighbours.json`, and `filter.json`, whose file is made anew to
know its bytes.
`--check` says at which sizes what validation chooses is within 2% of the best on test.

`pq` and `rq` are product and residual quantisation of the final vectors of a full-size LightGCN,
without any training afterwards: m books of 256 rows, as many as fit, rows in 8 bits. `make
results-page` draws the figure.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from machine import RESULTS

from cerp.artifact import (
    ComposedEmbedding,
    Encoding,
    ShippedModel,
    Table,
    ValuesCodec,
    decode,
    encode,
)
from cerp.assignment.index import Combine, Index
from cerp.assignment.residual_kmeans import learn_codes
from cerp.budget import parse_size
from cerp.config import Config, RunOptions
from cerp.data.datasets import load
from cerp.data.ids import Float32Array
from cerp.data.splits import PARTS, Splits
from cerp.errors import BudgetError
from cerp.evaluation.evaluate import evaluate
from cerp.export.to_arrays import final_vectors, ship_filter
from cerp.files import write_text
from cerp.graph.filter import Exponents
from cerp.graph.term import FilterTerm
from cerp.portfolio.folder import copy_run
from cerp.portfolio.members import MEMBERS, Member
from cerp.presets import teacher_preset
from cerp.runs.fit import fit_all, load_run
from cerp.runs.folder import RunFolder
from cerp.runtime import Runtime
from cerp.sizing.file_overhead import longest_facts
from cerp.sizing.precision_plan import NONE

SIZES = ("30KB", "60KB", "120KB", "250KB", "500KB")
QUANTISED = {"pq": "concat", "rq": "sum"}
DIMENSION, ROWS, MOST_BOOKS = 128, 256, 32
MIXED = {"mixture": "plain mixture", "joint": "mixture together", "full+filter": "plain full"}
"""Rows of mixtures.json by the names that they have here: all with the plain filter, while the
portfolio's mixtures are with the sharpened one."""
NAMES = {"cerp": "cerp-hash"}
"""What the recipes called by another name than rows of this file."""


def main() -> None:
    """Measure, or collect, and write the rows after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset", default="lastfm")
    parser.add_argument("--data", help="where the data is; by default in CERP_DATA_DIR")
    parser.add_argument("--work", type=Path, help="folder of runs, to go on in")
    parser.add_argument("--sizes", default=",".join(SIZES))
    names = [*(member.name for member in MEMBERS), *QUANTISED]
    parser.add_argument("--methods", default=",".join(names))
    parser.add_argument("--values", help="one precision alone, which saves trainings")
    parser.add_argument("--teacher", type=Path, help="a finished run, whose vectors are quantised")
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="finished ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        check(given.dataset)
        return
    place = given.data or str(Path(os.environ["CERP_DATA_DIR"]) / given.dataset)
    splits = load(place, seed=0)
    if given.collect:
        add(given.dataset, collected(given.dataset))
        add(given.dataset, collected_mixtures(given.dataset))
        add(given.dataset, collected_without_vectors(given.dataset, splits))
        return
    if given.runs:
        for run in given.runs:
            add(given.dataset, exported(splits, run, given))
        return
    for name in given.methods.split(","):
        for size in given.sizes.split(","):
            if not is_there(given.dataset, name, size, given.seed):
                row = measured(splits, name, size, given)
                if row is not None:
                    add(given.dataset, [{"dataset": given.dataset, **row}])


def measured(
    splits: Splits, name: str, size: str, given: argparse.Namespace
) -> dict[str, Any] | None:
    """A row; None where the method does not fit into the size."""
    row = {"method": name, "max_file_size": size, "seed": given.seed}
    if name in QUANTISED:
        file = quantised(splits, teacher(splits, given), name, size, given.seed)
        if file is None:
            return None
        valid, test = judged(file, splits)
        return {**row, "file_bytes": len(file), "ndcg10": test, "valid_ndcg10": valid}
    [member] = [one for one in MEMBERS if one.name == name]
    own = RunFolder(given.work / f"{name}-{size}-{given.seed}")
    other = RunFolder(given.work / f"{member.starts_from}-{size}-{given.seed}")
    if other.is_finished and own.plan() is None:
        copy_run(other, own, mix=member.mix)
    options = RunOptions(folder=own.path, resume=True)
    config = member.config(size, {"seed": given.seed})
    if given.values and not is_untrained(member):
        config = replace(config, value_precision=given.values)
    try:
        [model] = fit_all(splits, config, options)
    except BudgetError as error:
        print(f"{name} {size}: {error}", flush=True)
        return None
    facts = model.facts
    return {
        **row,
        "file_bytes": facts.file_bytes,
        "ndcg10": facts.metrics["test"]["ndcg@10"],
        "valid_ndcg10": facts.metrics["valid"]["ndcg@10"],
        "values": facts.values,
        "seconds": facts.seconds,
    }


def judged(file: bytes, splits: Splits) -> tuple[float, float]:
    """NDCG@10 of a file on validation and on test."""
    runtime = Runtime(decode(file))
    valid, test = (evaluate(runtime, splits, on=part) for part in PARTS[1:])
    return valid.mean["ndcg@10"], test.mean["ndcg@10"]


def exported(splits: Splits, run: Path, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rows of a run's models in some precisions, as `cerp export --values` writes them."""
    for model in load_run(run, splits):
        for values in get_args(ValuesCodec):
            if values not in (given.values or "").split(","):
                continue
            own = values == model.encoding.values
            file = model.file(None if own else Encoding(values))
            valid, test = judged(file, splits)
            yield {
                "method": given.methods,
                "dataset": given.dataset,
                "budget": f"{model.budget} run in {values}",
                "file_bytes": len(file),
                "ndcg10": test,
                "valid_ndcg10": valid,
                "seed": model.config.seed,
            }


def is_untrained(member: Member) -> bool:
    """Whether there are no values whose precision could be chosen."""
    return member.name in ("filter", "sharp-filter", "neighbours")


def teacher(splits: Splits, given: argparse.Namespace) -> Float32Array:
    """The final vectors of a full-size LightGCN, users first: of `--teacher`, or of a new run."""
    if given.teacher:
        [model] = load_run(given.teacher, splits)
    else:
        options = RunOptions(folder=given.work / f"teacher-{given.seed}", resume=True)
        [model] = fit_all(splits, teacher_preset("lightgcn", DIMENSION, given.seed), options)
    assert model.recommender is not None
    tables = final_vectors(model.recommender)
    return np.concatenate([tables.users, tables.items])


def quantised(
    splits: Splits, vectors: Float32Array, name: str, size: str, seed: int
) -> bytes | None:
    """The largest file of quantised vectors that fits, by the number of its books; None: none."""
    combine: Combine = "concat" if QUANTISED[name] == "concat" else "sum"
    limit, best = parse_size(size), None
    for books in (1, 2, 4, 8, 16, MOST_BOOKS):
        if combine == "sum" and books > 8:
            break
        tables = (
            product_tables(vectors, books, seed)
            if combine == "concat"
            else residual_tables(vectors, books, seed)
        )
        model = ShippedModel(
            facts={"method": name},
            users=splits.users,
            items=splits.items,
            head="dot",
            embedding=ComposedEmbedding(tables, combine),
        )
        file = encode(model, Encoding("int8", seen=False))
        if len(file) > limit:
            break
        best = file
    return best


def product_tables(vectors: Float32Array, books: int, seed: int) -> tuple[Table, ...]:
    """A k-means of its own for each of m equal parts of the dimensions."""
    return tuple(residual_tables(part, 1, seed)[0] for part in np.split(vectors, books, axis=1))


def residual_tables(vectors: Float32Array, books: int, seed: int) -> tuple[Table, ...]:
    """Books whose rows add up."""
    codes = learn_codes(np.ascontiguousarray(vectors), books=books, rows=ROWS, seed=seed)
    return tuple(
        Table(Index("coded", ROWS, codes=np.ascontiguousarray(codes.codes[:, book])), rows)
        for book, rows in enumerate(codes.books)
    )


def collected(dataset: str) -> Iterator[dict[str, Any]]:
    """Rows of what other measurements wrote a file for."""
    for path in sorted((RESULTS / dataset).glob("*-runs.json")):
        if path.name.startswith("fig-"):
            continue  # settings that are worse on purpose
        for cell in json.loads(path.read_text(encoding="utf-8"))["found"]:
            found, run = cell["result"], cell["run"]
            is_plain = run["preset"] == "default" and run["variant"] is None
            if not is_plain or found["file_bytes"] is None or cell["ordering"] == "native":
                continue
            name = NAMES.get(run["method"], run["method"])
            if cell["ordering"] == "shuffled" and name == "cerp-hash":
                continue
            yield {
                "method": f"{name} {found['backbone']}" if found["backbone"] else name,
                "dataset": dataset,
                "budget": found["budget"],
                "file_bytes": found["file_bytes"],
                "ndcg10": found["ndcg10"],
                "valid_ndcg10": found["valid_ndcg10"],
                "seed": found["seed"],
                "source": path.name,
            }
    students = RESULTS / dataset / "students.json"
    if students.exists():
        for found in json.loads(students.read_text(encoding="utf-8"))["final"]:
            yield {
                "method": "student",
                "dataset": dataset,
                "budget": found["budget"],
                "file_bytes": found["file_bytes"],
                "ndcg10": found["test_ndcg@10"],
                "valid_ndcg10": found["valid_ndcg@10"],
                "seed": found["seed"],
                "source": students.name,
            }


def collected_mixtures(dataset: str) -> Iterator[dict[str, Any]]:
    """Rows of vectors beside the filter; what is there without it comes from recipes as well."""
    path = RESULTS / "mixtures.json"
    for found in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        is_new = found["method"] in MIXED or found["budget"].startswith("+")
        if found["dataset"] == dataset and is_new:
            kept = ("dataset", "budget", "file_bytes", "ndcg10", "valid_ndcg10", "seed")
            row = {name: found[name] for name in kept}
            method = MIXED.get(found["method"], found["method"])
            yield {"method": method, **row, "source": path.name}


def collected_without_vectors(dataset: str, splits: Splits) -> Iterator[dict[str, Any]]:
    """Rows of the benchmarks of the filter and of item neighbours."""
    shared = {"dataset": dataset, "seed": 0}
    found = json.loads((RESULTS / "neighbours.json").read_text(encoding="utf-8"))
    for size, one in found.get(dataset, {}).get("sizes", {}).items():
        if not is_there(dataset, "neighbours", size, 0):
            yield {
                **shared,
                "method": "neighbours",
                "max_file_size": size,
                "file_bytes": one["file_bytes"],
                "ndcg10": one["test"]["ndcg@10"],
                "valid_ndcg10": one["valid"]["ndcg@10"],
                "source": "neighbours.json",
            }
    found = json.loads((RESULTS / "filter.json").read_text(encoding="utf-8"))
    if dataset in found and not is_there(dataset, "filter", "1GB", 0):
        one = found[dataset]
        term = FilterTerm(Exponents(**one["exponents"]))
        facts = longest_facts(Config(method="filter"), splits, NONE, 0, has_vectors=False)
        yield {
            **shared,
            "method": "filter",
            "file_bytes": len(encode(ship_filter(term, splits, facts), Encoding())),
            "ndcg10": one["test"]["ndcg@10"],
            "valid_ndcg10": one["valid"]["ndcg@10"],
            "source": "filter.json",
        }


def rows_of(dataset: str) -> list[dict[str, Any]]:
    """What has been measured."""
    path = RESULTS / dataset / "frontier.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def is_there(dataset: str, name: str, size: str, seed: int) -> bool:
    """Whether a row need not be measured again; one size is enough for what has one file alone."""
    found = [one for one in rows_of(dataset) if (one["method"], one["seed"]) == (name, seed)]
    if name in ("filter", "sharp-filter", "full"):
        return any(one["file_bytes"] <= parse_size(size) for one in found)
    return any(one.get("max_file_size") == size for one in found)


def check(dataset: str) -> None:
    """Print what validation chooses at every size, and how far that is behind."""
    from results_page.frontier import read_points
    from results_page.within_hull import choice_table, verdict

    points = read_points(RESULTS / dataset / "frontier.json")
    print(f"{dataset}: {verdict(points)}\n\n{choice_table(points)}\n")


def add(dataset: str, new: Any) -> None:
    """Put rows to those that are there, each once."""
    rows = rows_of(dataset)
    for row in new:
        if row not in rows:
            rows.append(row)
            print(row, flush=True)
    rows.sort(key=lambda row: (row["method"], row["file_bytes"], row["seed"]))
    lines = ",\n".join(f" {json.dumps(row)}" for row in rows)
    write_text(RESULTS / dataset / "frontier.json", f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
