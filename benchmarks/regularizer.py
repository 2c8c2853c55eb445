"""What the penalty of the paper does; writes results/regularizer.json.

    CERP_DATA_DIR=... python benchmarks/regularizer.py PART [--dataset ml-100k] [--device cpu]
        [--backbones lightgcn,mlp] [--seeds 1] [--epochs 20] [--dim 128]
        [--rows hash,learned] [--names penalty,no_penalty] [--processes 1] [--apart]

PART is one of

- ``search``: γ, learning rates and decay of the `paper` preset at 99% on validation, from the
  grids that the paper prints: one setting after the other, in the order of `GRIDS`, twice;
- ``rates``: the learning rate of pruning once more, by the mean over 90, 95 and 99%;
- ``clock``: in how many epochs thresholds come up to the weights (with 3 to 5 the first entry falls
  in the second or third), jointly with the learning rate of pruning, by the same mean;
- ``open``: what the paper leaves open besides, each from the best of the same clocks on: how many
  positives a step has, of training jointly with its learning rate, and where thresholds start
  (with ``--seeds 3`` what comes near the best is compared by three);
- ``table``: the paper's table 3: the preset, without the penalty, and without the halving of γ,
  at 90, 95 and 99%, judged on the test part;
- ``readings``: the same for other readings of the printed equation and of the authors' code;
- ``default``: γ and its decay in the default preset, jointly with the clock, at 99% on
  validation, for hashed and for learned rows.

One pruning run serves all budgets of a run. The same command goes on where a killed one was.
``--dataset gowalla --device cuda`` runs the same on the paper's data. ``--names`` are those of the
table's or the readings' runs. ``--epochs`` are those of training after pruning (0: only prune, and
look at the patterns), and ``--dim`` is that of vectors; without them they are the preset's.
``--processes`` so many runs go on at a time: they share a GPU well.
``--apart`` prunes once for each budget, in processes of their own: small batches wait for one core.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import cache
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from threading import Lock
from typing import Any, NamedTuple

from machine import RESULTS, described, write_figures

from cerp.budget import Budget
from cerp.comparison.variants import merged, nested
from cerp.config import Config, RunOptions
from cerp.data.datasets import load
from cerp.data.splits import Splits
from cerp.methods.base import Context
from cerp.methods.cerp import Cerp
from cerp.models.backbones.base import BatchVectors
from cerp.paper.published import bucket_count
from cerp.presets import preset
from cerp.runs.facts import ModelFacts
from cerp.runs.fit import fit_all
from cerp.training.penalties import PENALTIES, complementary

FILE = RESULTS / "regularizer.json"
FOLDER = Path("runs/regularizer")
"""Of the runs at work: a killed one goes on where it was."""
PARTS = ("search", "rates", "clock", "open", "table", "readings", "default")
JUDGED = ("table", "readings")
"""Parts whose runs read the test part."""
BUDGETS = ("90%", "95%", "99%")
GAMMAS = (1.0, 0.1, 0.01, 1e-3, 1e-4)
GRIDS: dict[str, tuple[float, ...]] = {
    "prune.gamma": GAMMAS,
    "train.learning_rate": (1e-2, 1e-3, 1e-4),
    "train.weight_decay": (1e-5, 1e-6, 1e-7),
    "prune.learning_rate": (1e-3, 1e-2, 1e-4),
    "prune.weight_decay": (1e-5, 1e-6, 1e-7),
}
"""What the paper says it chose from; the search starts at the first of each."""
ROUNDS = 2
"""The best value of a setting may be another one once all have been chosen."""
RISES = (3, 4, 5)
"""Epochs in which thresholds come up to the weights."""
BATCHES = (1024, 2048, 4096)
"""Positives of a step, beside the preset's 8,192."""
BATCHES_BY_RATE: dict[float, tuple[int | None, ...]] = {
    1e-2: (None, *BATCHES),
    1e-3: (None, *BATCHES, 128, 256, 512),
}
"""At a tenth of the rate smaller ones validate better, at the higher rate larger ones."""
LONGER = {"train.learning_rate": 1e-3, "train.batch_size": 512, "train.epochs": 120}
"""Twice the epochs, whose price is that of half the batch."""
NEAR = 0.995
"""Of the best score: what comes so near with one seed may be better with several."""
STARTS = ("uniform", "normal", "long-tail", "xavier-uniform")
"""Of thresholds, beside all ones."""
TABLE: dict[str, dict[str, Any]] = {
    "penalty": {},
    "no_penalty": {"prune.gamma": 0.0},
    "no_gamma_decay": {"prune.gamma_decay": 1.0},
}
READINGS: dict[str, dict[str, Any]] = {
    "the authors' sum over 10 positives": {"prune.penalty": "sum-over-10"},
    "the sum over the batch": {"prune.penalty": "sum-over-batch"},
    "eta = 1000": {"prune.temperature": 1000.0},
    "eta = 10": {"prune.temperature": 10.0},
    "gamma = 0.1": {"prune.gamma": 0.1},
    "gamma = 0.01": {"prune.gamma": 0.01},
    "gamma = 0.001": {"prune.gamma": 0.001},
    "each entity of the batch once": {"prune.penalty": "distinct"},
    "each draw of the batch": {"prune.penalty": "every-draw"},
    "thresholds start at -100": {"prune.threshold_scale": -100.0},
    "thresholds start at -100 and take 15 epochs, gamma = 0.001": {
        "prune.threshold_scale": -100.0,
        "prune.epochs": 15,
        "prune.gamma": 1e-3,
        "prune.learning_rate": 2e-3,
        "prune.weight_decay": 0.0,
    },
}
"""The last is what the preset had up to 0.2."""
ONLY = {"each entity of the batch once": "lightgcn", "each draw of the batch": "mlp"}
"""What a backbone's vectors do not tell apart: LightGCN looks at each user once, and the MLP has
an item as often as it was drawn."""
CLOCKS = (0.5, 0.1)
"""Shares of the epochs before the default preset prunes its first entry."""
PACES = ((0.5, 1.0), (0.1, 0.5))
"""Such a share, and what gamma is multiplied by after an epoch. Where the first entry falls after
half of the epochs, a gamma that is halved is gone by then, and is not tried."""


@PENALTIES.register("sum-over-10")
def sum_over_10(vectors: BatchVectors, temperature: float) -> Any:
    """The authors' batch has 10 positives, and their penalty is not divided by them."""
    return 10 * complementary(vectors, temperature)


@PENALTIES.register("sum-over-batch")
def sum_over_batch(vectors: BatchVectors, temperature: float) -> Any:
    """Not divided by the positives, whatever their number: as large as the batch is."""
    return 1024 * complementary(vectors, temperature)


@PENALTIES.register("distinct")
def distinct(vectors: BatchVectors, temperature: float) -> Any:
    """Items count once as well, however often they were drawn."""
    return complementary(vectors._replace(counts=vectors.counts.clamp(max=1)), temperature)


@PENALTIES.register("every-draw")
def every_draw(vectors: BatchVectors, temperature: float) -> Any:
    """Users count as often as they were drawn, too."""
    counts = vectors.counts.new_ones(vectors.counts.shape)
    return complementary(vectors._replace(counts=counts), temperature)


class Wanted(NamedTuple):
    """One run: its name, the preset it starts from, what it changes there, and its seed."""

    name: str
    start: Config
    settings: dict[str, Any]
    seed: int = 0


class Recipe:
    """The runs of one part on one data set, each trained once."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.part, self.dataset = given.part, given.dataset
        self.pool = ProcessPoolExecutor(given.processes, mp_context=get_context("spawn"))
        self.writing = Lock()

    def everything(self) -> None:
        """All runs of the part, those of every backbone side by side."""
        backbones = self.given.backbones.split(",")
        with self.pool, ThreadPoolExecutor(len(backbones)) as threads:
            for done in [threads.submit(getattr(self, self.part), one) for one in backbones]:
                done.result()

    def paper(self, backbone: str, budgets: Iterable[str]) -> Config:
        """The paper preset, with the paper's buckets where the data is the paper's."""
        config = preset("paper", backbone)
        return replace(config, buckets=bucket_count(self.dataset), budgets=tuple(budgets))

    def searched_from(self, backbone: str, budgets: Iterable[str]) -> Config:
        """The same with the training that LightGCN had before ``open`` chose its batch."""
        config = self.paper(backbone, budgets)
        rate = GRIDS["train.learning_rate"][0]
        return replace(config, train=replace(config.train, learning_rate=rate, batch_size=None))

    def scores(self, backbone: str, runs: Sequence[Wanted]) -> list[float]:
        """Validation NDCG@10 of runs, the mean over budgets; trained where it is not known."""
        keys = [self.key(backbone, run) for run in runs]
        parts = [
            (number, part)
            for number, run in enumerate(runs)
            if known(keys[number]) is None
            for part in self.parts_of(self.config_of(run))
        ]
        parts.sort(key=lambda entry: entry[1].budgets, reverse=True)  # 99% takes longest
        missing = {self.pool.submit(outcome, self.given, part): number for number, part in parts}
        found: dict[int, list[dict[str, Any]]] = {number: [] for number in missing.values()}
        for done in as_completed(missing):
            number = missing[done]
            found[number].append(done.result())
            if len(found[number]) == [*missing.values()].count(number):
                self.keep(keys[number], found[number])
        return [score_of(known(key)) for key in keys]

    def parts_of(self, config: Config) -> list[Config]:
        """What one process trains: all budgets of a run, or one of them."""
        if not self.given.apart:
            return [config]
        return [replace(config, budgets=(budget,)) for budget in config.budgets]

    def key(self, backbone: str, run: Wanted) -> dict[str, Any]:
        """What tells a run from all others in the file."""
        return {
            "part": self.part,
            "dataset": self.dataset,
            "backbone": backbone,
            "name": run.name,
            "settings": run.settings,
            "seed": run.seed,
            "epochs": self.given.epochs,
            "dim": self.given.dim,
        } | (training_of(run.start) if self.part in JUDGED else {})

    def config_of(self, run: Wanted) -> Config:
        """The preset with what the run and the command line change."""
        own = {"train.epochs": self.given.epochs, "dim": self.given.dim, "seed": run.seed}
        given = {path: value for path, value in own.items() if value}
        return Config.from_dict(merged(run.start.to_dict(), nested({**run.settings, **given})))

    def keep(self, key: dict[str, Any], parts: Sequence[dict[str, Any]]) -> None:
        """Write a finished run to the file."""
        budgets = {name: row for part in parts for name, row in part["budgets"].items()}
        run = key | {
            "seconds": round(sum(part.get("seconds", 0) for part in parts), 1),
            "budgets": dict(sorted(budgets.items())),
        }
        with self.writing:
            runs = [*read_runs(), run]
            write_figures(FILE, {"runs": runs, "machine": described(self.given.device)})
        print(json.dumps(run), flush=True)

    def asked(self, named: dict[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
        """Those of a part that are wanted: all, unless some are named."""
        wanted = list(named) if self.given.names is None else self.given.names.split(",")
        return [(name, named[name]) for name in wanted]

    def search(self, backbone: str) -> None:
        """One setting after the other, each kept where it validates best."""
        start = self.searched_from(backbone, ["99%"])
        best = {path: values[0] for path, values in GRIDS.items()}
        for path, values in [*GRIDS.items()] * ROUNDS:
            runs = [Wanted("paper", start, best | {path: value}) for value in values]
            scores = dict(zip(values, self.scores(backbone, runs), strict=True))
            best[path] = max(scores, key=scores.__getitem__)
        print(f"{self.dataset} {backbone}: {best}")

    def rates(self, backbone: str) -> None:
        """The preset prunes to all budgets, and `search` looks at one."""
        start, path = self.searched_from(backbone, BUDGETS), "prune.learning_rate"
        runs = [Wanted("paper", start, {path: value}) for value in GRIDS[path]]
        scores = dict(zip(GRIDS[path], self.scores(backbone, runs), strict=True))
        print(f"{self.dataset} {backbone}: {scores}")

    def clock(self, backbone: str) -> dict[str, Any]:
        """The longer thresholds rise, the more is learned before the first entry falls."""
        path = "prune.learning_rate"
        clocks = product(RISES, GRIDS[path])
        return self.best(backbone, [{"prune.epochs": one, path: rate} for one, rate in clocks])

    def open(self, backbone: str) -> None:
        """One setting at a time, beside the best clock."""
        best = self.clock(backbone)
        rates = [(rate, size) for rate, sizes in BATCHES_BY_RATE.items() for size in sizes]
        settings = [
            *({"train.learning_rate": rate} | batch_of("train", size) for rate, size in rates),
            LONGER,
            *(batch_of("prune", size) for size in BATCHES),
            *({"prune.threshold_start": start} for start in STARTS),
        ]
        self.best(backbone, [best | one for one in settings])

    def best(self, backbone: str, settings: list[dict[str, Any]]) -> dict[str, Any]:
        """The settings of the `paper` preset that validate best at all budgets of the paper.

        All are tried with the first seed, and those that come `NEAR` the best with the others too.
        """
        start, seeds = self.searched_from(backbone, BUDGETS), self.given.seeds
        first = self.scores(backbone, [Wanted("paper", start, one) for one in settings])
        least = NEAR * max(first)
        near = [one for one, score in zip(settings, first, strict=True) if score >= least]
        again = [Wanted("paper", start, one, seed) for one, seed in product(near, range(seeds))]
        found = iter(self.scores(backbone, again))
        means = [mean(islice(found, seeds)) for _ in near]
        for number, tried, scores in ((1, settings, first), (seeds, near, means)):
            for one, score in zip(tried, scores, strict=True):
                print(f"{self.dataset} {backbone}: {score:.5f} ({number} seeds) {one}", flush=True)
        return near[means.index(max(means))]

    def table(self, backbone: str) -> None:
        """All variants, the first seed of each first."""
        self.judged(backbone, self.asked(TABLE))

    def readings(self, backbone: str) -> None:
        """Every other reading that the backbone's vectors allow."""
        asked = self.asked(READINGS)
        self.judged(backbone, [one for one in asked if ONLY.get(one[0], backbone) == backbone])

    def judged(self, backbone: str, named: list[tuple[str, dict[str, Any]]]) -> None:
        """Runs by name at all budgets of the paper, with every seed."""
        start = self.paper(backbone, BUDGETS)
        self.scores(
            backbone,
            [
                Wanted(name, start, settings, seed)
                for seed, (name, settings) in product(range(self.given.seeds), named)
            ],
        )

    def default(self, backbone: str) -> None:
        """Without the penalty, and with it, at every pace of γ and of the clock."""
        without: list[dict[str, Any]] = [
            {"prune.gamma": 0.0, "prune.dense_share": share} for share in CLOCKS
        ]
        alive = [
            {"prune.gamma": gamma, "prune.gamma_decay": decay, "prune.dense_share": share}
            for gamma, (share, decay) in product(GAMMAS[:-1], PACES)
        ]
        self.scores(
            backbone,
            [
                Wanted(rows, preset("default", backbone, assignment=rows), settings, seed)
                for seed, rows, settings in product(
                    range(self.given.seeds), self.given.rows.split(","), without + alive
                )
            ],
        )


def training_of(config: Config) -> dict[str, Any]:
    """Rate, batch and epochs of training: those of the preset have been others."""
    own = config.train
    named = {name: getattr(own, name) for name in ("learning_rate", "batch_size", "epochs")}
    return {"training": named}


def batch_of(stage: str, size: int | None) -> dict[str, Any]:
    """The positives of a step as a setting; None: those of the preset."""
    return {} if size is None else {f"{stage}.batch_size": size}


@cache
def data(name: str, *, is_judged: bool) -> Splits:
    """The data set; without its test part where something is chosen."""
    splits = load(name)
    return splits if is_judged else splits.without_test()


def outcome(given: argparse.Namespace, config: Config) -> dict[str, Any]:
    """Train, and say what came of it by budget."""
    splits = data(given.dataset, is_judged=given.part in JUDGED)
    digest = hashlib.sha256(json.dumps(config.to_dict(), sort_keys=True).encode()).hexdigest()[:16]
    folder = FOLDER / given.part / given.dataset / digest
    options = RunOptions(quiet=True, device=given.device, folder=folder, resume=True)
    if given.epochs == 0:
        return {"budgets": patterns(splits, config, replace(options, folder=None))}
    models = fit_all(splits, config, options)
    shutil.rmtree(folder)
    return {
        "seconds": round(sum(model.facts.seconds for model in models), 1),
        "budgets": {model.budget: figures(model.facts) for model in models},
    }


def patterns(splits: Splits, config: Config, options: RunOptions) -> dict[str, Any]:
    """What pruning leaves, by budget; nothing is trained on it."""
    limits = [
        Budget.parse(budget).limit(splits.num_entities, config.dim) for budget in config.budgets
    ]
    context = Context(splits, config, options, tuple(limits))
    method = Cerp()
    found = method.search(context).found
    return {
        budget: left(method.embedding(context, limit, found[limit]).facts(), found[limit].facts)
        for budget, limit in zip(config.budgets, limits, strict=True)
    }


def figures(facts: ModelFacts) -> dict[str, Any]:
    """What is left of the codebooks, and how good it is."""
    found = left(vars(facts), facts.search or {})
    found["valid_ndcg@10"] = round(facts.best_valid, 5)
    found["best_epoch"] = facts.best_epoch
    if "test" in facts.metrics:
        found["test_ndcg@10"] = round(facts.metrics["test"]["ndcg@10"], 5)
    return found


def left(counts: dict[str, Any], search: dict[str, Any]) -> dict[str, Any]:
    """What is left of the codebooks, and when pruning was done."""
    return {
        "avg_dim": round(counts["avg_dim"], 2),
        "dim_deviation": round(counts["dim_deviation"], 2),
        "overlap_pct": round(100 * counts["overlap"], 2),
        "empty_entities": counts["empty_entities"],
        "few_values": counts["few_values"],
        "pruned_at_epoch": round(search["epoch"], 2),
        "stalls_at": None if search["reached"] else round(100 * search["reached_sparsity"], 2),
    }


def read_runs() -> list[dict[str, Any]]:
    """What was run before."""
    path = Path(FILE)
    found: list[dict[str, Any]] = json.loads(path.read_text())["runs"] if path.exists() else []
    return found


def known(key: dict[str, Any]) -> dict[str, Any] | None:
    """A run that was kept; None: it has not been run."""
    for run in read_runs():
        if all(run[part] == value for part, value in key.items()):
            return run
    return None


def score_of(run: dict[str, Any] | None) -> float:
    """Its validation NDCG@10, the mean over budgets."""
    assert run is not None, "a run is looked at once it is kept"
    return float(mean(row.get("valid_ndcg@10", 0) for row in run["budgets"].values()))


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--dataset", default="ml-100k")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backbones", default="lightgcn,mlp")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--dim", type=int, default=None)
    parser.add_argument("--names", default=None)
    parser.add_argument("--rows", default="hash,learned")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--apart", action="store_true")
    Recipe(parser.parse_args()).everything()


if __name__ == "__main__":
    main()
