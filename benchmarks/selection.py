"""Which figure on validation should choose β and ε of a mixture?

    CERP_DATA_DIR=... python benchmarks/selection.py --work WORK [--device cuda] [--processes 6]
        [--datasets gowalla,ml-1m,lastfm,amazon-beauty] [--kinds 99%] [--seeds 0,1] [--real]
        [--minutes 3] [--set epochs=2 ...]

Answered inside the training part: of each user's training items a tenth is a pseudo-validation
and a fifth a pseudo-test; LightGCN (`--kinds`: 99%, sized, full) is trained on the rest, each pair
of a grid of β and ε is judged on both, and each rule of `RULES` picks one by the pseudo-validation
alone. The exponents of the filter are those of results/filter.json. Rows of
results/selection.json: what each rule gets on the pseudo-test, and the best that a pair gets.

With `--real` nothing is carved: rules pick on validation, and each pair that is picked is read
on test once; `test_readings` counts them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from machine import RESULTS
from mixtures import (
    Job,
    Trial,
    configs,
    filter_shares,
    jobs_of,
    options,
    results_of,
    rows_of,
    write_rows,
)

from cerp.config import Config, RunOptions
from cerp.data.datasets import load
from cerp.data.ids import Int32Array
from cerp.data.protocols import drawn_per_user
from cerp.data.splits import Part, Splits
from cerp.evaluation.cold_start import items_without_rows, users_without_rows
from cerp.evaluation.evaluate import Scorer, entries_of, sample_users
from cerp.evaluation.metrics import FloatArray, RankedLists, user_metrics
from cerp.evaluation.ranking import exclude, top_k
from cerp.graph.filter import Exponents
from cerp.graph.mixture import FIRST_SAMPLE
from cerp.graph.term import Mixing
from cerp.presets import preset, with_settings
from cerp.runs.fit import fit_all

PSEUDO_TEST, PSEUDO_VALID = 0.2, 0.1
PSEUDO_TEST_USERS = 10_000
BETAS = tuple(2.0**power for power in range(-1, 9))
EPSILONS = tuple(10 ** (power / 2) for power in range(-8, 1))
GRID = [(beta, epsilon) for epsilon in EPSILONS for beta in BETAS]
CUTOFFS = (4, 10, 20)
METRICS = ("ndcg@10", "ndcg@4", "ndcg@20", "recall@20")
RULES = (*METRICS, "one_error")
"""The best mean of a metric; or of all that are within one standard error of the best NDCG@10, in
the mean of the users' differences, the smallest β."""
ROWS = 512
"""Users who are ranked together."""

Values = dict[str, FloatArray]
"""Of each metric, (pairs of the grid, users)."""


def main() -> None:
    """Measure what is missing, and write the rows after each job."""
    parser = options(kinds="99%", seeds="0,1", out="selection.json")
    parser.add_argument("--real", action="store_true", help="the data set's own parts")
    given = parser.parse_args()
    rows = {key_of(row): row for row in rows_of(given.out)}
    jobs = [
        job for job in jobs_of(given) if (job.dataset, job.kind, job.seed, given.real) not in rows
    ]
    for row in results_of(partial(measured, is_real=given.real), jobs, given.processes):
        if row is not None:
            print({name: value for name, value in row.items() if name != "grid"}, flush=True)
            rows[key_of(row)] = row
            write_rows(given, rows)


def key_of(row: dict[str, Any]) -> tuple[str, str, int, bool]:
    """What there is one row of."""
    return row["dataset"], row["kind"], row["seed"], row["is_real"]


def measured(job: Job, is_real: bool) -> dict[str, Any] | None:
    """The row of one model, unless there is no time."""
    if time.time() > job.end:
        return None
    started = time.time()
    torch.set_num_threads(2)
    splits = load(job.place, seed=0)
    if not is_real:
        splits = carved(splits, job.seed)
    found = json.loads((RESULTS / "filter.json").read_text())[job.dataset]
    exponents = Exponents(**found["exponents"])
    runs = job.work / f"{job.dataset}-{job.kind}-{job.seed}-{'real' if is_real else 'pseudo'}"
    options = RunOptions(device=job.device, folder=runs, resume=True, quiet=True)
    (config,) = configs_of(job, splits, exponents)
    (model,) = fit_all(splits, config, replace(options, reads_test=False))
    shares = filter_shares(splits, exponents, torch.device(job.device))
    trial = Trial(job, splits, exponents, shares, model)
    return {
        "dataset": job.dataset,
        "kind": job.kind,
        "seed": job.seed,
        "is_real": is_real,
        **(on_test(trial) if is_real else on_pseudo_test(trial)),
        "seconds": round(time.time() - started, 1),
    }


def carved(splits: Splits, seed: int) -> Splits:
    """The training part as a data set of its own; the other parts are not looked at."""
    data, rng = splits.train, np.random.default_rng(seed)
    test = drawn_per_user(data, PSEUDO_TEST, rng)
    valid = np.zeros_like(test)
    # The share is of all the user's items, and it is drawn from what is left.
    valid[~test] = drawn_per_user(data.subset(~test), PSEUDO_VALID / (1 - PSEUDO_TEST), rng)
    facts = {"name": "carved from training", "seed": seed}
    parts = data.subset(~test & ~valid), data.subset(valid), data.subset(test)
    return Splits(*parts, protocol=facts)


def configs_of(job: Job, splits: Splits, exponents: Exponents) -> Iterable[Config]:
    """What is trained: a share, or as in mixtures.py."""
    if job.kind.endswith("%"):
        own = {**job.settings, "seed": job.seed}
        return [with_settings(preset("default"), (job.kind,), own)]
    return configs(job, splits, exponents)


def on_pseudo_test(trial: Trial) -> dict[str, Any]:
    """What each rule gets, chosen by the sample that the library judges by and by all users."""
    valid, sampled = on_validation(trial)
    users = judged_users(trial, "test", PSEUDO_TEST_USERS)
    reached = judged(trial, "test", users)["ndcg@10"].mean(axis=1)

    def told(values: Values) -> dict[str, Any]:
        picks = picked(values)
        return {
            rule: {**named(pick), "pseudo_test_ndcg10": float(reached[pick])}
            for rule, pick in picks.items()
        }

    best = int(reached.argmax())
    return {
        "by_sample": told(sampled),
        "by_all": told(valid),
        "best": {**named(best), "pseudo_test_ndcg10": float(reached[best])},
        "grid": grid(sampled, valid, {"pseudo_test_ndcg10": reached}),
    }


def on_test(trial: Trial) -> dict[str, Any]:
    """What each rule's pick has on test; only picks are read there."""
    valid, sampled = on_validation(trial)
    recommender, read = trial.model.recommender, dict[int, dict[str, Any]]()
    assert recommender is not None
    picks = picked(sampled)
    for pick in picks.values():
        if pick not in read:
            figures = trial.row("mixture", recommender, (Mixing(*GRID[pick]), 0.0))
            read[pick] = {name: figures[name] for name in ("ndcg10", "valid_ndcg10", "file_bytes")}
    return {
        "by_sample": {rule: {**named(pick), **read[pick]} for rule, pick in picks.items()},
        "test_readings": len(read),
        "grid": grid(sampled, valid, {}),
    }


def on_validation(trial: Trial) -> tuple[Values, Values]:
    """The grid's figures for all users with truth, and for those of the library's sample."""
    everybody = judged_users(trial, "valid", trial.splits.num_users)
    drawn = np.isin(everybody, judged_users(trial, "valid", FIRST_SAMPLE))
    values = judged(trial, "valid", everybody)
    return values, {metric: of_users[:, drawn] for metric, of_users in values.items()}


def judged_users(trial: Trial, on: Part, count: int) -> Int32Array:
    """A seeded sample of the users with truth; those without training rows get popularity."""
    users = sample_users(trial.splits, on, count, trial.job.seed)
    return np.setdiff1d(users, users_without_rows(trial.splits.train))


def picked(values: Values) -> dict[str, int]:
    """The place in the grid that each rule chooses."""
    best = {metric: int(values[metric].mean(axis=1).argmax()) for metric in METRICS}
    ndcg = values["ndcg@10"]
    behind = ndcg[best["ndcg@10"]] - ndcg
    error = behind.std(axis=1, ddof=1) / np.sqrt(behind.shape[1])
    near = np.flatnonzero(behind.mean(axis=1) <= error)
    lightest = min(near, key=lambda place: (GRID[place][0], behind[place].mean()))
    return {**best, "one_error": int(lightest)}


def named(place: int) -> dict[str, float]:
    """β and ε of a place in the grid."""
    beta, epsilon = GRID[place]
    return {"beta": beta, "epsilon": epsilon}


def grid(sampled: Values, valid: Values, others: dict[str, FloatArray]) -> list[dict[str, float]]:
    """All pairs with their means, and the standard error of NDCG@10 on the sample."""
    error = sampled["ndcg@10"].std(axis=1, ddof=1) / np.sqrt(sampled["ndcg@10"].shape[1])
    columns = {
        **{f"sample_{metric}": sampled[metric].mean(axis=1) for metric in METRICS},
        "sample_error": error,
        **{metric: valid[metric].mean(axis=1) for metric in METRICS},
        **others,
    }
    return [
        {**named(place), **{name: round(float(one[place]), 6) for name, one in columns.items()}}
        for place in range(len(GRID))
    ]


def judged(trial: Trial, on: Part, users: Int32Array) -> Values:
    """The metrics of each user, for each pair of the grid."""
    assert trial.model.recommender is not None
    splits, vectors = trial.splits, trial.model.recommender.scorer()
    seen, truth = splits.seen_before(on), splits.part(on)
    hidden = items_without_rows(splits.train)
    keys = truth.user.astype(np.int64) * truth.num_items + truth.item
    sizes = np.diff(truth.user_offsets)
    values = {metric: np.empty((len(GRID), len(users))) for metric in METRICS}
    for first in range(0, len(users), ROWS):
        chunk = users[first : first + ROWS]
        exclusions = (*entries_of(seen, chunk), hidden)
        for place, items in enumerate(best_items(trial, vectors, chunk, exclusions)):
            wanted = chunk.astype(np.int64)[:, None] * truth.num_items + items
            hits = keys.take(np.searchsorted(keys, wanted), mode="clip") == wanted
            ranked = RankedLists(hits & (items >= 0), sizes[chunk])
            told = user_metrics(ranked, list(CUTOFFS), ["ndcg", "recall"])
            for metric in METRICS:
                values[metric][place, first : first + len(chunk)] = told[metric]
    return values


@torch.no_grad()
def best_items(
    trial: Trial, vectors: Scorer, users: Int32Array, exclusions: tuple[Any, Any, Any]
) -> Iterable[Int32Array]:
    """The best items by each pair of the grid, (len(users), 20), -1 for none."""
    shares = trial.shares
    rows = torch.from_numpy(users.astype(np.int64)).to(shares.device)
    share, epsilons = shares[rows].float(), dict[float, torch.Tensor]()
    scores: torch.Tensor = vectors.score_all(users)  # type: ignore[assignment]
    for beta, epsilon in GRID:
        if epsilon not in epsilons:
            epsilons = {epsilon: (share + epsilon).log_()}
        mixed = scores.add(epsilons[epsilon], alpha=beta)
        yield top_k(exclude(mixed, *exclusions), CUTOFFS[-1])[0]


if __name__ == "__main__":
    main()
