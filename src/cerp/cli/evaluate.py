"""`cerp evaluate`: how well models rank, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal

import typer

from cerp.artifact.model import FloatArray
from cerp.cli.conventions import Conventions, cold_start_words, print_conventions
from cerp.cli.later import (
    Delimiter,
    Header,
    ItemColumn,
    Reading,
    UserColumn,
    Where,
    later_of,
    model_in,
)
from cerp.cli.options import AsJson, Seed, needs_torch, splits_of
from cerp.cli.output import print_json, print_note, print_table
from cerp.data.ids import Int32Array
from cerp.data.splits import Part, Splits
from cerp.errors import DataError
from cerp.evaluation import evaluate as evaluation
from cerp.evaluation.baselines import UNTRAINED, untrained
from cerp.evaluation.metrics import Metrics
from cerp.evaluation.significance import Difference, paired_bootstrap
from cerp.runtime import Runtime, load

DEFAULT_KS = list(evaluation.DEFAULT_KS)


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            show_default=False,
            help="Model files, folders of finished runs (both must be of the same data), or models "
            f"that need no training: {', '.join(UNTRAINED)}.",
        ),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            show_default=False,
            help="A data set by name, a split folder, or a file: the one that a model was made of "
            "is split at random as then, another holds rows that came after a model file.  "
            "[default: the split that the run keeps]",
        ),
    ] = None,
    on: Annotated[Literal["test", "valid"], typer.Option(help="The part to judge on.")] = "test",
    k: Annotated[list[int], typer.Option("-k", help="Cut-off; repeat for several.")] = DEFAULT_KS,
    metric: Annotated[
        str | None, typer.Option(help="What to compare two models by.  [default: ndcg@10]")
    ] = None,
    users: Annotated[
        int | None, typer.Option(help="Judge on a seeded sample of so many users.")
    ] = None,
    unseen_items: Annotated[
        bool,
        typer.Option("--unseen-items", help="Lists may hold items that training never saw."),
    ] = False,
    user: UserColumn = None,
    item: ItemColumn = None,
    header: Header = None,
    delimiter: Delimiter = None,
    where: Where = None,
    seed: Seed = 0,
    conventions: Conventions = False,
    as_json: AsJson = False,
) -> None:
    """Rank the whole catalogue for every user and compare with what they took.

    Given several models, each pair is compared by the mean difference over users
    with its paired-bootstrap interval (95%).

    \b
    Examples:
      cerp evaluate popularity --data synthetic
      cerp evaluate popularity random --data my-split --metric recall@20
      cerp evaluate popularity --data my-split -k 10 -k 100 --json
      cerp evaluate popularity run model.cerp --data my-split
      cerp evaluate run
      cerp evaluate popularity model.cerp --data tomorrow.csv
    """
    metric = metric or f"ndcg@{10 if 10 in k else k[0]}"
    _refuse_missing(models)
    reading = Reading(user, item, header, delimiter, where)
    later = later_of(models, data, seed, reading)
    splits = later.splits if later else splits_of(data, models, seed=seed, **reading.options)
    sample = None if users is None else evaluation.sample_users(splits, on, users, seed)
    judged = {
        label: evaluation.evaluate(
            scorer,
            splits,
            on=on,
            ks=k,
            users=sample,
            unseen_items=unseen_items,
            label=f"judge {label}",
        )
        for name in dict.fromkeys(models)
        for label, scorer in _scorers(name, splits, on, seed, is_later=later is not None).items()
    }
    for metrics in judged.values():
        metrics.refuse_unknown(metric)
    differences = {
        (first, second): paired_bootstrap(judged[first], judged[second], metric, seed=seed)
        for first, second in combinations(judged, 2)
    }
    if as_json:
        context = {"fingerprint": splits.fingerprint, "seed": seed}
        context |= {"later": later.counts()} if later else {}
        print_json(_as_json(judged, differences) | context)
        return
    ranked = sorted(judged.items(), key=lambda entry: -entry[1].mean[metric])
    _print_metrics(dict(ranked), sorted(set(k)), metric)
    if differences:
        _print_differences(differences)
    if later:
        print_note("later rows", str(later))
    found = next(iter(judged.values()))
    cold = cold_start_words(found.summary(), unseen_items=unseen_items)
    print_conventions(whole=conventions, start=f"{len(found.users):,} users of {on}{cold}. ")


def _refuse_missing(models: Sequence[str]) -> None:
    for name in models:
        if name not in UNTRAINED and not Path(name).exists():
            raise DataError(
                f"{name}: no such file or folder, and no model that needs no training; those are "
                f"{', '.join(UNTRAINED)}"
            )


def _scorers(
    name: str, splits: Splits, on: Part, seed: int, *, is_later: bool
) -> dict[str, evaluation.Scorer]:
    """A model that needs no training, that of a file, or every model of a run."""
    if is_later and name not in UNTRAINED:
        return {name: _Judged(_same_ids(name, splits))}
    if name not in UNTRAINED and Path(name).is_file():
        return {name: _runtime(name, splits, on)}
    if name in UNTRAINED or not Path(name).is_dir():
        return {name: untrained(name, splits, seed=seed)}
    with needs_torch("Evaluating a run"):
        from cerp.runs.fit import load_run
    models = load_run(name, splits)
    for model in models:
        evaluation.refuse_learned(name, model.splits.fingerprint, splits, on)
    return {f"{name} {model.budget}": model.scorer() for model in models}


@dataclass(frozen=True)
class _Judged:
    """A file on later rows: whatever it was trained on, those came after."""

    runtime: Runtime

    def score_all(self, users: Int32Array) -> FloatArray:
        return self.runtime.score_all(users)


def _same_ids(name: str, splits: Splits) -> Runtime:
    runtime = load(model_in(Path(name)))
    users = splits.users if runtime.is_item_only else runtime.users
    if (users, runtime.items) != (splits.users, splits.items):
        raise DataError(
            f"{name} was made of other data: its users or items are not those of the data given"
        )
    return runtime


def _runtime(name: str, splits: Splits, on: Part) -> Runtime:
    """The model of a file, which must be of the data and must not have learned what it is asked."""
    runtime = _same_ids(name, splits)
    if runtime.trained_on:  # by the name of its file, and before anything else is judged
        evaluation.refuse_learned(name, runtime.trained_on, splits, on)
    return runtime


def _as_json(
    judged: Mapping[str, Metrics],
    differences: Mapping[tuple[str, str], Difference],
) -> dict[str, object]:
    """One model's figures at the top level; several under their names."""
    summaries = {name: metrics.summary() for name, metrics in judged.items()}
    if len(summaries) == 1:
        return next(iter(summaries.values()))
    pairs = [
        {"first": first, "second": second, **asdict(found)}
        for (first, second), found in differences.items()
    ]
    return {"models": summaries, "differences": pairs}


def _print_metrics(judged: Mapping[str, Metrics], ks: Sequence[int], metric: str) -> None:
    shown = [f"{name}@{k}" for k in ks for name in ("ndcg", "recall")]
    shown_coverage = f"coverage@{ks[-1]}"
    print_table(
        ("model", *shown, shown_coverage, f"head {metric}", f"tail {metric}"),
        [
            (
                name,
                *(metrics.mean[key] for key in shown),
                metrics.coverage[shown_coverage],
                *(group.get(metric, "-") for group in (metrics.head, metrics.tail)),
            )
            for name, metrics in judged.items()
        ],
    )


def _print_differences(differences: Mapping[tuple[str, str], Difference]) -> None:
    first_found = next(iter(differences.values()))
    typer.echo()
    print_table(
        (
            f"difference in {first_found.metric}",
            "mean",
            f"{first_found.confidence:.0%} interval",
            "",
        ),
        [
            (
                f"{first} - {second}",
                f"{found.mean:+.4f}",
                f"[{found.low:+.4f}, {found.high:+.4f}]",
                "" if found.is_clear else "not clear",
            )
            for (first, second), found in differences.items()
        ],
    )
