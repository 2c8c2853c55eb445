"""How to train the runs again and make the page again: exact commands, and all settings."""

from __future__ import annotations

import json
import shlex
from typing import Any, get_args
from xml.etree.ElementTree import Element

from cerp.config import Config
from cerp.pages.html import Parts, element, folded, table
from cerp.presets import NO_TEACHER, TAUGHT_ROWS, PresetName, default_teacher, preset
from cerp.reports.findings import Findings
from cerp.reports.finished_runs import FinishedRun

OPTION_OF_SETTING = {
    "ordering": "--ordering",
    "dim": "--dim",
    "backbone_options.neighbours": "--neighbours",
    "buckets": "--buckets",
    "assignment": "--assignment",
    "codebooks": "--codebooks",
    "prune.epochs": "--prune-epochs",
    "prune.gamma": "--gamma",
    "prune.batch_size": "--batch-size",
    "train.batch_size": "--batch-size",
    "prune.epoch_size": "--epoch-size",
    "train.epoch_size": "--epoch-size",
    "train.epochs": "--epochs",
    "train.learning_rate": "--learning-rate",
    "value_precision": "--values",
    "refit": "--refit",
    "seed": "--seed",
}
"""The options of `cerp train` for settings that a preset leaves to the caller."""
SHARED_BY_STAGES = ("batch_size", "epoch_size")
"""Settings of pruning and training that one option gives to both."""
NOT_IN_PRESETS = {
    "method",
    "backbone",
    "budgets",
    "max_file_size",
    "store_seen",
    "mix",
    "item_only",
}
"""Settings that the caller gives whatever the preset."""
WITHOUT_BUDGET = ("full", "filter", "sharp-filter", "ease")
"""Methods that no budget limits."""
WITHOUT_BACKBONE = ("ease", "filter", "sharp-filter", "neighbours", "svd")
"""Methods that train no vectors."""

NO_CLI_EQUIVALENT = """\
import json
from pathlib import Path

import cerp
from cerp.config import Config, RunOptions
from cerp.runs.fit import fit_all

settings = json.loads(Path({config!r}).read_text())["config"]
options = RunOptions(folder=Path({folder!r}))
fit_all(cerp.load_splits({data!r}), Config.from_dict(settings), options)"""
"""For settings that no option of the command line stands for."""


def reproduction(found: Findings, title: str, data: str | None, seed: int) -> Parts:
    """The origin of every run, the commands, and all settings."""
    named = "" if data else " DATA stands for the data, which the run folders do not name."
    rows = [
        [
            run.label,
            str(run.folder),
            str(run.config.seed),
            run.origin.version,
            run.origin.device,
        ]
        for run in found.runs
    ]
    return [
        element(
            "p",
            "Training on the same data gives the same models: to the bit on a CPU with the same "
            f"versions, otherwise up to rounding.{named} Its fingerprint must be ",
            element("code", found.runs[0].origin.fingerprint),
            ".",
        ),
        table("Runs", ["run", "folder", "seed", "cerp", "device"], rows),
        *(part for run in found.runs for part in _run_again(run, data or "DATA")),
        element("h3", "This page"),
        _code(report_command(found, title, data, seed)),
    ]


def report_command(found: Findings, title: str, data: str | None, seed: int) -> str:
    """The `cerp report` that makes this page."""
    words = ["cerp", "report", *(str(run.folder) for run in found.runs)]
    if data is not None:
        words += ["--data", data, "--seed", str(seed)]
    return shlex.join([*words, "--title", title, "-o", "report.html"])


def train_command(config: Config, data: str, output: str) -> str | None:
    """A `cerp train` that gives this configuration; None if its options cannot say it."""
    wanted = _flat(config.to_dict())
    if any(wanted[f"prune.{name}"] != wanted[f"train.{name}"] for name in SHARED_BY_STAGES):
        return None
    for name in get_args(PresetName):
        like = preset(name, config.backbone, config.method, config.teacher, config.assignment)
        given = _flat(like.to_dict())
        differing = [
            key
            for key in wanted.keys() | given.keys()
            if wanted.get(key) != given.get(key) and key not in NOT_IN_PRESETS
        ]
        if all(key in OPTION_OF_SETTING and wanted[key] is not None for key in differing):
            options = {
                OPTION_OF_SETTING[key]: wanted[key] for key in OPTION_OF_SETTING if key in differing
            }
            if config.assignment != preset(name, config.backbone, config.method).assignment:
                options["--assignment"] = config.assignment
            if config.teacher is not None:
                options["--teacher"] = config.teacher
            elif default_teacher(config, name, None, TAUGHT_ROWS[0]):
                options["--teacher"] = NO_TEACHER  # or there may be one by default
            if name != "default":
                options = {"--preset": name, **options}
            return shlex.join(_words(config, data, output, options))
    return None


def _run_again(run: FinishedRun, data: str) -> Parts:
    command = train_command(run.config, data, str(run.folder)) or NO_CLI_EQUIVALENT.format(
        config=str(run.folder / "config.json"), folder=f"{run.folder}-again", data=data
    )
    settings = json.dumps(run.config.to_dict(), indent=1)
    return [
        element("h3", run.label),
        _code(command),
        folded(f"All settings of {run.label}", _code(settings)),
    ]


def _code(text: str) -> Element:
    return element("pre", element("code", text))


def _words(config: Config, data: str, output: str, options: dict[str, Any]) -> list[str]:
    words = ["cerp", "train", data, "--method", config.method]
    if config.method not in WITHOUT_BACKBONE:
        words += ["--backbone", config.backbone]
    has_budget = config.method not in WITHOUT_BUDGET and config.budgets != ("full",)
    if config.budgets != (config.max_file_size,) and has_budget:
        words += [word for budget in config.budgets for word in ("--budget", budget)]
    if config.max_file_size is not None:
        words += ["--max-file-size", config.max_file_size]
    if not config.store_seen:
        words.append("--no-seen")
    if config.mix:
        words.append("--mix" if config.mix is True else f"--mix-{config.mix}")
    if config.item_only:
        words.append("--item-only")
    words += [word for flag, value in options.items() for word in (flag, str(value))]
    return [*words, "-o", output]


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted names."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found
