"""LightGCN beside the graph filter, mixed after training and trained together.

    CERP_DATA_DIR=... python benchmarks/mixtures.py --work WORK [--device cuda] [--processes 8]
        [--datasets gowalla,ml-1m,lastfm,amazon-beauty] [--seeds 0,1,2] [--minutes 7]
        [--set epochs=2 ...]

Rows of results/mixtures.json, each with method, dataset, budget, file_bytes, ndcg10, valid_ndcg10
and seed: `lightgcn` and `full`, their vectors alone; `mixture` and `full+filter`, β and ε found
on validation after training; `joint`, the same with a β that was learned with the vectors, from
each of `STARTS`, of which validation chooses. `+350KB` is a file of the graph and at most so much.
Exponents are those of results/filter.json. What is there is not measured again; after `--minutes`
nothing new is begun. Jobs are processes that share the device. The test part is read once for
each row, after everything of it is chosen.

Here F / max F of all users and items lies in memory, in half precision (2.4 GB for Gowalla): it
makes a measurement fast, and is no way to train elsewhere.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from machine import RESULTS, described, write_figures
from torch import Tensor

from cerp.artifact import Encoding, decode, encode
from cerp.config import Config, RunOptions
from cerp.data.datasets import load
from cerp.data.ids import Int32Array
from cerp.data.splits import Part, Splits
from cerp.evaluation.cold_start import with_popularity
from cerp.evaluation.evaluate import Scorer, evaluate, sample_users
from cerp.export.to_arrays import as_shipped, ship_filter
from cerp.graph.arithmetic import inverse_power
from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents
from cerp.graph.mixture import BETAS, EPSILONS, FIRST_SAMPLE, REFINEMENTS, SAMPLE
from cerp.graph.term import FilterTerm, Mixing
from cerp.models.batch import Batch
from cerp.models.recommender import Recommender
from cerp.presets import preset, teacher_preset, with_settings
from cerp.runs.fit import fit_all
from cerp.runs.fitted_model import FittedModel
from cerp.runs.folder import RunFolder
from cerp.runs.planning import pipeline
from cerp.sizing.file_overhead import longest_facts
from cerp.sizing.precision_plan import NONE
from cerp.training.adam import Adam
from cerp.training.loop import EarlyStopping, Loop, StageHooks
from cerp.training.objective import Objective
from cerp.training.optimizers import weight_optimizer
from cerp.training.stages import score_memory, training_sampler

Found = TypeVar("Found")

DATASETS = ("gowalla", "ml-1m", "lastfm", "amazon-beauty")
SHARES = ("99%", "95%", "90%")
BESIDE_GRAPH = 350_000
SIZED = f"+{BESIDE_GRAPH // 1000}KB"
LAST = {"sized": ("joint", SIZED), "shares": ("joint", SHARES[-1]), "full": ("full+filter", "full")}
"""Of each kind of job, the last row."""
DIMENSION = 128
STARTS = (1.0, 4.0)
"""Of β: with the second the filter decides nearly all pairs at first."""
EPSILON = 0.01
"""While training."""
BETA_RATE = 1e-2
CHUNK = 1024
"""Users whose F is computed together."""


@dataclass(frozen=True)
class Job:
    """What one process measures: models of one kind, on one data set, with one seed."""

    dataset: str
    kind: str
    """``sized``, ``shares`` or ``full``."""
    seed: int
    place: str
    work: Path
    device: str
    settings: dict[str, Any]
    end: float
    """When nothing more is begun, in seconds of the epoch."""

    @property
    def last(self) -> tuple[str, str, str, int]:
        """What its last row is called."""
        method, budget = LAST[self.kind]
        return self.dataset, method, budget, self.seed


def main() -> None:
    """Measure what is missing, and write the rows after each job."""
    given = options(kinds="sized,full,shares", seeds="0,1,2", out="mixtures.json").parse_args()
    rows = {key_of(row): row for row in rows_of(given.out)}
    jobs = [job for job in jobs_of(given) if job.last not in rows]
    for found in results_of(measured, jobs, given.processes):
        rows |= {key_of(row): row for row in found}
        write_rows(given, rows)


def options(*, kinds: str, seeds: str, out: str) -> argparse.ArgumentParser:
    """What a benchmark of many jobs on one device takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True, help="folder of runs, to go on in")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--seeds", default=seeds)
    parser.add_argument("--kinds", default=kinds)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--set", nargs="*", default=[], help="settings, to try this in small")
    parser.add_argument("--out", type=Path, default=RESULTS / out)
    return parser


def jobs_of(given: argparse.Namespace) -> list[Job]:
    """All that the command line names, the first seed of everything first."""
    end = time.time() + 60 * given.minutes
    settings = {name: int(value) for name, value in (one.split("=") for one in given.set)}
    return [
        Job(
            *(dataset, kind, int(seed), place_of(dataset)),
            *(given.work, given.device, settings, end),
        )
        for seed in given.seeds.split(",")
        for kind in given.kinds.split(",")
        for dataset in given.datasets.split(",")
    ]


def results_of(work: Callable[[Job], Found], jobs: list[Job], processes: int) -> Iterator[Found]:
    """What jobs give, as they end; where one fails the others go on."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as workers:
        waiting = {workers.submit(work, job): job for job in jobs}
        for done in as_completed(waiting):
            if error := done.exception():
                print(f"{waiting[done]}: {error!r}", flush=True)
            else:
                yield done.result()


def rows_of(path: Path) -> list[dict[str, Any]]:
    """What was measured before."""
    found: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path.exists() else []
    return found


def write_rows(given: argparse.Namespace, rows: Mapping[Any, dict[str, Any]]) -> None:
    """All rows so far, in the order of their keys."""
    found = [rows[key] for key in sorted(rows)]
    write_figures(given.out, {"machine": described(given.device), "rows": found})


def key_of(row: dict[str, Any]) -> tuple[str, str, str, int]:
    """What there is one row of."""
    return row["dataset"], row["method"], row["budget"], row["seed"]


def place_of(dataset: str) -> str:
    """Where the data is; what comes with the package has no place."""
    if dataset == "synthetic":
        return dataset
    return str(Path(os.environ["CERP_DATA_DIR"]) / dataset)


def measured(job: Job) -> list[dict[str, Any]]:
    """The rows of a job that are missing and that there is time for."""
    torch.set_num_threads(2)
    splits = load(job.place, seed=0)
    found = json.loads((RESULTS / "filter.json").read_text())[job.dataset]
    exponents = Exponents(**found["exponents"])
    rows: list[dict[str, Any]] = []
    shares: Tensor | None = None
    for config in configs(job, splits, exponents):
        if time.time() > job.end:
            break
        # With the budgets of a run, since it prunes once for all.
        runs = job.work / f"{job.dataset}-{job.kind}-{job.seed}"
        options = RunOptions(device=job.device, folder=runs, resume=True, quiet=True)
        models = fit_all(splits, config, replace(options, reads_test=False))
        for model in models:
            if shares is None:
                shares = filter_shares(splits, exponents, torch.device(job.device))
            trial = Trial(job, splits, exponents, shares, model)
            for row in trial.rows(RunFolder(runs)):
                print(row, flush=True)
                rows.append(row)
    return rows


def configs(job: Job, splits: Splits, exponents: Exponents) -> Iterable[Config]:
    """What is trained in a job."""
    own = {**job.settings, "seed": job.seed}
    if job.kind == "full":
        yield with_settings(teacher_preset("lightgcn", DIMENSION, job.seed), (), own)
    elif job.kind == "shares":
        yield with_settings(preset("default"), SHARES, own)
    else:
        limit = filter_bytes(splits, exponents) + BESIDE_GRAPH
        yield with_settings(
            preset("default"), (), {**own, "max_file_size": f"{limit}B", "values": "int4"}
        )


def filter_bytes(splits: Splits, exponents: Exponents) -> int:
    """The file of the graph filter alone."""
    facts = longest_facts(Config(method="filter"), splits, NONE, 0, has_vectors=False)
    return len(encode(ship_filter(FilterTerm(exponents), splits, facts), Encoding()))


@dataclass(frozen=True, eq=False)
class Trial:
    """A trained model, and what the filter makes of it."""

    job: Job
    splits: Splits
    exponents: Exponents
    shares: Tensor
    model: FittedModel

    def rows(self, folder: RunFolder) -> Iterable[dict[str, Any]]:
        """Vectors, mixture and joint training."""
        is_full = self.job.kind == "full"
        recommender = self.model.recommender
        assert recommender is not None
        yield self.row("full" if is_full else "lightgcn", recommender, None)
        name = "full+filter" if is_full else "mixture"
        yield self.row(name, recommender, self.searched(recommender))
        if is_full or time.time() > self.job.end:
            return
        tried = [(self.trained_together(folder, start), start) for start in STARTS]
        best = max(tried, key=lambda one: one[0][2])
        (joint, mixing, _), start = best
        yield {**self.row("joint", joint, mixing), "start": start}

    def searched(self, recommender: Recommender) -> tuple[Mixing, float]:
        """β and ε by validation, as `cerp.graph.mixture.search_mixture` looks for them.

        Here all who choose there judge every pair: a GPU has the time.
        """
        users = sample_users(self.splits, "valid", SAMPLE, self.job.seed)
        vectors, judged = recommender.scorer(), dict[tuple[float, float], float]()

        def judge(beta: float, epsilon: float) -> None:
            scorer = MixedScorer(vectors, self.shares, beta, epsilon)
            judged[beta, epsilon] = self.figure(scorer, "valid", users)

        for epsilon in EPSILONS:
            for beta in BETAS:
                judge(beta, epsilon)
        for beta_step, epsilon_step in REFINEMENTS:
            beta, epsilon = max(judged, key=lambda pair: judged[pair])
            for up in (-1, 0, 1):
                for high in (-1, 0, 1):
                    if (up or high) and epsilon * epsilon_step**high <= 1:
                        judge(beta * beta_step**up, epsilon * epsilon_step**high)
        beta, epsilon = max(judged, key=lambda pair: judged[pair])
        return Mixing(beta, epsilon), judged[beta, epsilon]

    def trained_together(
        self, folder: RunFolder, start: float
    ) -> tuple[Recommender, tuple[Mixing, float], float]:
        """Pruned vectors trained with the filter in their scores; β and ε then by validation."""
        config, plan, searched = self.model.config, folder.plan(), folder.searched()
        assert plan is not None
        assert searched is not None
        stages = pipeline(plan, self.splits, RunOptions(device=self.job.device, folder=folder.path))
        found = searched.found[self.model.limit]
        embedding = stages.method.embedding(stages.context, self.model.limit, found)
        recommender = stages.context.recommender(embedding)
        log_beta = torch.nn.Parameter(torch.tensor(math.log(start), device=recommender.device))
        objective = JointObjective(log_beta=log_beta, shares=self.shares)
        users = sample_users(self.splits, "valid", FIRST_SAMPLE, self.job.seed)

        def judge() -> float:
            beta = float(log_beta.detach().exp())
            scorer = MixedScorer(recommender.scorer(), self.shares, beta, EPSILON)
            return self.figure(scorer, "valid", users)

        loop = Loop(
            recommender,
            training_sampler(recommender, self.splits, config.train, config.seed + 1),
            [
                weight_optimizer(config.train, list(recommender.parameters())),
                Adam([log_beta], learning_rate=BETA_RATE),
            ],
            epochs=config.train.epochs,
            hooks=StageHooks(),
            label="joint",
            objective=objective,
            early_stopping=EarlyStopping(judge, config.train.evaluate_every, config.train.patience),
            cosine=True,
            quiet=True,
        )
        loop.run()
        mixing = self.searched(recommender)
        return recommender, mixing, mixing[1]

    def row(
        self, method: str, recommender: Recommender, found: tuple[Mixing, float] | None
    ) -> dict[str, Any]:
        """The figures of a model as its file has it."""
        term = None if found is None else FilterTerm(self.exponents, found[0])
        file = replace(self.model, recommender=recommender, filter=term).file()
        filed = as_shipped(recommender, decode(file))
        scorer: Scorer = filed.scorer()
        if found is not None:
            scorer = MixedScorer(scorer, self.shares, found[0].beta, found[0].epsilon)
        told = {} if found is None else {"beta": found[0].beta, "epsilon": found[0].epsilon}
        return {
            "method": method,
            "dataset": self.job.dataset,
            "budget": SIZED if self.job.kind == "sized" else self.model.budget,
            "file_bytes": len(file),
            "ndcg10": self.figure(scorer, "test"),
            "valid_ndcg10": self.figure(scorer, "valid"),
            "seed": self.job.seed,
            **told,
        }

    def figure(self, scorer: Scorer, on: Part, users: Int32Array | None = None) -> float:
        """NDCG@10."""
        metrics = evaluate(
            with_popularity(scorer, self.splits.train),
            self.splits,
            on=on,
            ks=(10,),
            users=users,
            memory=score_memory(torch.device(self.job.device)),
        )
        return metrics.mean["ndcg@10"]


class MixedScorer:
    """``⟨z_u, z_i⟩ + β · log(ε + F / max F)`` where the device has room for all of it."""

    def __init__(self, vectors: Any, shares: Tensor, beta: float, epsilon: float) -> None:
        self.vectors, self.shares, self.beta, self.epsilon = vectors, shares, beta, epsilon

    @torch.no_grad()
    def score_all(self, users: Int32Array) -> Tensor:
        """Scores of all items, (len(users), num_items)."""
        places = torch.from_numpy(np.asarray(users, dtype=np.int64)).to(self.shares.device)
        share = self.shares[places].float().add_(self.epsilon).log_()
        scores: Tensor = self.vectors.score_all(users)
        return scores.add(share, alpha=self.beta)


@dataclass(frozen=True, eq=False, kw_only=True)
class JointObjective(Objective):
    """The loss of vectors and filter together."""

    log_beta: Tensor
    shares: Tensor

    def __call__(self, model: Recommender, batch: Batch, global_size: int) -> Tensor:
        """The loss of a batch."""
        output = model(batch)
        items = torch.cat([batch.positives[:, None], batch.negatives], dim=1)
        share = self.shares[batch.users[:, None], items].float()
        told = self.log_beta.exp() * (EPSILON + share).log()
        return self.of_output(output._replace(scores=output.scores + told)) / global_size


def filter_shares(splits: Splits, exponents: Exponents, device: torch.device) -> Tensor:
    """F / max F, (users, items), in half precision; the maximum is over what is not taken."""
    edges = Edges.of(splits.train)

    def powers(degrees: Any, exponent: float) -> Tensor:
        return torch.from_numpy(inverse_power(degrees, exponent)).float().to(device)

    start, middle, end = (
        powers(edges.item_degrees, exponents.p),
        powers(edges.user_degrees, exponents.q),
        powers(edges.item_degrees, exponents.r),
    )
    user = np.repeat(np.arange(edges.num_users), edges.user_degrees)
    taken = torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([user, edges.items.astype(np.int64)])),
        torch.ones(len(edges)),
        (edges.num_users, edges.num_items),
    ).to(device)
    taken, by_item = taken.to_sparse_csr(), taken.t().coalesce().to_sparse_csr()
    shares = torch.empty((edges.num_users, edges.num_items), dtype=torch.float16, device=device)
    for first in range(0, edges.num_users, CHUNK):
        last = min(first + CHUNK, edges.num_users)
        places = slice(int(edges.user_offsets[first]), int(edges.user_offsets[last]))
        rows = torch.from_numpy(user[places] - first).to(device)
        items = torch.from_numpy(edges.items[places].astype(np.int64)).to(device)
        history = torch.zeros((edges.num_items, last - first), device=device)
        history[items, rows] = start[items]
        strength = (by_item @ ((taken @ history) * middle[:, None])) * end[:, None]
        free = strength.clone()
        free[items, rows] = 0
        peak = free.amax(dim=0).clamp_min(torch.finfo(torch.float32).tiny)
        shares[first:last] = (strength / peak).clamp_max(6e4).T.half()
    return shares


if __name__ == "__main__":
    main()
