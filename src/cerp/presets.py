"""Settings that were found good, those of the paper, and what a caller puts in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from cerp.choices import Assignment
from cerp.config import Config, PruneConfig, TrainConfig
from cerp.errors import ConfigError

PresetName = Literal["default", "paper"]

BEST_ASSIGNMENT: dict[str, Assignment] = {"lightgcn": "learned", "mf": "learned"}
"""By backbone, what was better on validation; where nothing was measured, rows are hashed."""


ALS = "als"
SVD = "svd"
"""Methods and teachers."""
NO_TEACHER = "none"
"""In place of a teacher's name: train without one."""
TAUGHT_ROWS = (50_000, 2_000_000)
"""Training interactions, at least and at most, with which a graph-free model has a teacher unless
told otherwise: within them it was measured."""
ONLY_BACKBONE = {ALS: "mf", "legcf": "mf"}
"""By method, the backbone that it goes with, where that is one alone."""

OF_FULL_SIZE = ("full", "opq", "pca", "pq", "rq")
"""Methods that train the full table, whatever they then keep of it."""

MLP_VALIDATION_USERS = 3000
"""The MLP scores every pair by a network of its own: ranking all users of a large data set
takes longer than an epoch."""

WORDS: dict[str, tuple[str, ...]] = {
    "max_file_size": ("max_file_size",),
    "values": ("value_precision",),
    "seen": ("store_seen",),
    "item_only": ("item_only",),
    "dim": ("dim",),
    "buckets": ("buckets",),
    "assignment": ("assignment",),
    "codebooks": ("codebooks",),
    "teacher": ("teacher",),
    "ordering": ("ordering",),
    "hashing": ("hashing",),
    "rewind": ("rewind",),
    "refit": ("refit",),
    "seed": ("seed",),
    "mix": ("mix",),
    "loss": ("loss",),
    "selection_metric": ("selection_metric",),
    "judge_users": ("judge_users", "train.validation_users"),
    "epochs": ("train.epochs",),
    "learning_rate": ("train.learning_rate",),
    "batch_size": ("prune.batch_size", "train.batch_size"),
    "epoch_size": ("prune.epoch_size", "train.epoch_size"),
    "prune_epochs": ("prune.epochs",),
    "gamma": ("prune.gamma",),
    "method_options": ("method_options",),
    "backbone_options": ("backbone_options",),
}
"""What callers may put in place of a preset's settings, and which entries of `Config` each is:
keyword arguments of `cerp.fit` and options of the command line alike."""


def preset(
    name: PresetName,
    backbone: str | None = None,
    method: str = "cerp",
    teacher: str | None = None,
    assignment: Assignment | None = None,
) -> Config:
    """The configuration called ``name`` for a backbone; budgets and seed are the caller's.

    Without a backbone it is LightGCN, or the one that the method goes with. ALS keeps all values
    that its rank takes, unless a budget is given.

    - ``default``: scheduled pruning, and training goes on from the pruned weights. CERP's rows are
      learned from the training graph; with ``assignment="hash"``, and always for the MLP, for which
      learned rows have not been measured, they are hashed in the spectral order of ids.
    - ``paper``: what the paper describes. Raw ids (which may leak: results carry the figures),
      5,000 buckets with the paper's divisor, free pruning whose first entries fall in the second
      epoch, at most 50 epochs of it, γ halved after every epoch, training from the rewound weights.

    docs/training.md has a table of what the two do differently, and where each departs from the
    printed paper and from the authors' code.
    """
    backbone = backbone or ONLY_BACKBONE.get(method, "lightgcn")
    users = MLP_VALIDATION_USERS if backbone == "mlp" else None
    training = TrainConfig(validation_users=users)
    if method in OF_FULL_SIZE:
        # From larger values than pruned codebooks start at, slower and for longer.
        training = replace(training, learning_rate=3e-3, epochs=150, evaluate_every=10, patience=3)
    config = Config(backbone=backbone, method=method, train=training)
    if method == ALS:
        return replace(config, budgets=("full",))
    if name == "paper":
        return _paper(config)
    if teacher is not None and teacher != NO_TEACHER:
        return _student(config, teacher)
    if method == "cerp" and (assignment or BEST_ASSIGNMENT.get(backbone)) == "learned":
        return _learned(config)
    return config


class PaperRates(NamedTuple):
    """Learning rate and weight decay of both stages, from the grids that the paper prints."""

    prune_rate: float
    prune_decay: float
    train_rate: float
    train_decay: float
    train_batch: int | None = None
    """Positives of a step, which the paper leaves open and the authors' code has 10 of; None: by
    `cerp.config.default_batch_size`."""


PAPER_RATES = {
    "lightgcn": PaperRates(1e-4, 1e-5, 1e-3, 1e-7, train_batch=256),
    "mlp": PaperRates(1e-2, 1e-7, 1e-2, 1e-5),
}
"""By backbone: of rates {1e-2, 1e-3, 1e-4} and decays {1e-5, 1e-6, 1e-7}, those with which Gowalla
validates best at 99% (results/regularizer.json). LightGCN's rate of training was chosen again with
its batch, by all three budgets: half the batch, or epochs until validation stops rising, take
longer and validate no better."""
AUTHORS_RATES = PaperRates(1e-3, 1e-5, 1e-2, 1e-5)
"""For a backbone that was not searched: while pruning, what the authors' code has."""


def _paper(config: Config) -> Config:
    """As printed, with what is left open chosen: see the table of docs/training.md.

    γ starts at 1, of {1e-4, 1e-3, 0.01, 0.1, 1}: so do the authors. It validates best with
    LightGCN, and with the MLP as well as 0.01 does, within what seeds differ by.
    """
    rates = PAPER_RATES.get(config.backbone, AUTHORS_RATES)
    training = config.train
    if config.method not in OF_FULL_SIZE:
        training = replace(
            training,
            learning_rate=rates.train_rate,
            weight_decay=rates.train_decay,
            batch_size=rates.train_batch,
        )
    return replace(
        config,
        buckets=5000,
        hashing="paper",
        ordering="native",
        rewind="initial",
        train=training,
        prune=PruneConfig(
            mode="free",
            epochs=3,
            max_epochs=50,
            learning_rate=rates.prune_rate,
            weight_decay=rates.prune_decay,
            threshold_start="ones",
            threshold_scale=None,
            gamma=1.0,
            on_stall="report",
        ),
    )


def _learned(config: Config) -> Config:
    """Rows learned from the training graph; decoupled decay in both stages, a rate that falls.

    Without the penalty, which validates worse here at any pace (results/regularizer.json).
    """
    decay: dict[str, Any] = {"optimizer": "adamw", "weight_decay": 0.08, "learning_rate": 5e-3}
    return replace(
        config,
        assignment="learned",
        prune=replace(config.prune, gamma=0.0, **decay),
        train=replace(config.train, schedule="cosine", epochs=40, **decay),
    )


def _student(config: Config, teacher: str) -> Config:
    """Codes and first values come from a teacher, so that a little training goes a long way."""
    return replace(
        config,
        teacher=teacher,
        assignment="learned",
        prune=replace(config.prune, epochs=8, learning_rate=3e-3, gamma=0.0),
        train=replace(
            config.train, epochs=24, learning_rate=3e-3, schedule="cosine", evaluate_every=3
        ),
    )


def teacher_preset(backbone: str, dim: int, seed: int) -> Config:
    """How a teacher is trained: full size, with decoupled decay and a rate that falls.

    ALS is a teacher, too, of any rank up to the dimension of its student.
    """
    if backbone == ALS:
        return replace(preset("default", method=ALS), dim=dim, seed=seed)
    config = preset("default", backbone, "full")
    training = replace(
        config.train,
        optimizer="adamw",
        learning_rate=5e-3,
        weight_decay=0.04,
        schedule="cosine",
        epochs=150,
        patience=6,
    )
    return replace(config, dim=dim, seed=seed, train=training)


def full_fast_preset(dim: int, seed: int) -> Config:
    """The whole table of LightGCN, trained as a teacher is, at twice the rate.

    On Gowalla its vectors have a NDCG@10 of .1007 on validation, those of a teacher .095
    (results/gowalla/full_size.json); on lastfm .160, those of a teacher .165.
    """
    config = teacher_preset("lightgcn", dim, seed)
    return replace(config, train=replace(config.train, learning_rate=1e-2, weight_decay=0.03))


def default_teacher(
    config: Config, name: PresetName, teacher: str | None, interactions: int
) -> str | None:
    """Who teaches where nobody was named: CERP without a graph, where the data allow it.

    Parameters
    ----------
    config
        What would be trained without.
    name
        Of the preset.
    teacher
        What the caller said; only where that is nothing is there a default.
    interactions
        Of the training part; `TAUGHT_ROWS` has how many it takes.

    """
    is_graph_free = config.backbone == "mf" and config.method == "cerp"
    is_asked_for = teacher is None and name == "default" and config.assignment == "learned"
    fewest, most = TAUGHT_ROWS
    allowed = is_graph_free and is_asked_for and fewest <= interactions <= most
    return SVD if allowed else None


def wanted_assignment(settings: Mapping[str, Any]) -> Assignment | None:
    """The assignment that settings name, or mean: an order of ids is for a hash."""
    if settings.get("ordering") is not None or settings.get("hashing") is not None:
        return settings.get("assignment") or "hash"
    return settings.get("assignment")


def with_settings(
    config: Config, budgets: tuple[str, ...] = (), settings: Mapping[str, Any] | None = None
) -> Config:
    """A configuration with budgets, and with settings by the names of `WORDS`; None: as it is.

    A file size alone is the only limit: then the budget is that size.
    """
    given = {name: value for name, value in (settings or {}).items() if value is not None}
    if given.get("teacher") == NO_TEACHER:
        del given["teacher"]
    if unknown := sorted(given.keys() - WORDS.keys()):
        raise ConfigError(
            f"there is no setting {unknown[0]!r}; there are: {', '.join(sorted(WORDS))}"
        )
    entries = {path: value for name, value in given.items() for path in WORDS[name]}
    if not budgets and "max_file_size" in given:
        budgets = (str(given["max_file_size"]),)
    own: dict[str, Any] = {path: value for path, value in entries.items() if "." not in path}
    if budgets:
        own["budgets"] = budgets
    for part in ("prune", "train"):
        start = f"{part}."
        inside = {
            path.removeprefix(start): value
            for path, value in entries.items()
            if path.startswith(start)
        }
        own[part] = replace(getattr(config, part), **inside)
    return replace(config, **own)
