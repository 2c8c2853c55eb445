"""`fit`: from splits to trained models under their budgets.

With a folder, every finished stage of `cerp.runs.pipeline` leaves its file there, so an
interrupted run goes on with the stage it was in.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cerp.config import Config, RunOptions
from cerp.data.splits import Splits
from cerp.errors import ConfigError, DataError
from cerp.files import write_json
from cerp.methods.base import CHECKPOINT
from cerp.presets import preset
from cerp.runs.fitted_model import FittedModel
from cerp.runs.folder import RESULT, begin, claimed, finished_config, refuse_other
from cerp.runs.pipeline import Run
from cerp.training.distributed import rank


def fit(
    splits: Splits,
    budget: str | int | None = None,
    *,
    max_file_size: str | None = None,
    backbone: str | None = None,
    method: str | None = None,
    seed: int | None = None,
    device: str = "cpu",
    output: str | Path | None = None,
    config: Config | None = None,
) -> FittedModel:
    """Order ids, prune, retrain, select on validation, and read the test part once.

    ``budget`` is a pruned share (``"99%"``, the default), a count of values, or
    bytes of the embedding (``"400KB"``); ``max_file_size`` (``"2MB"``) limits the
    whole model file, alone or beside a budget. ``config`` gives everything that
    the other arguments leave open; without it, the default preset does (LightGCN, CERP, seed 0).
    A size alone is the only limit, unless ``config`` has budgets of its own.
    With ``output``, a folder, the run can be resumed by the same call.
    """
    given: dict[str, Any] = {
        "backbone": backbone,
        "method": method,
        "seed": seed,
        "max_file_size": max_file_size,
    }
    if budget is not None:
        given["budgets"] = (str(budget),)
    elif max_file_size is not None and (config is None or config.budgets == Config.budgets):
        given["budgets"] = (max_file_size,)
    base = config or preset("default", backbone or "lightgcn", method or "cerp")
    chosen = replace(base, **{name: value for name, value in given.items() if value is not None})
    if len(chosen.budgets) > 1:
        raise ConfigError(
            f"fit gives one model, and the configuration has {len(chosen.budgets)} budgets; give "
            "one as budget, or call cerp.runs.fit.fit_all for a model of each"
        )
    folder = None if output is None else Path(output)
    options = RunOptions(device=device, folder=folder, resume=True)
    return fit_all(splits, chosen, options)[0]


def fit_all(splits: Splits, config: Config, options: RunOptions) -> list[FittedModel]:
    """One model per budget of the configuration, in the order given."""
    folder = options.folder
    if folder:
        refuse_other(folder, config, splits, resume=options.resume)
    run = Run(splits, config, options)
    if folder is None:
        return run.models()
    with claimed(folder):
        begin(folder, config, splits)
        is_new = not (folder / RESULT).exists() or run.missing_files()
        models = run.models()
        if is_new and rank() == 0:
            write_json(folder / RESULT, run.result(models))
            (folder / CHECKPOINT).unlink(missing_ok=True)
    return models


def load_run(folder: str | Path, splits: Splits, *, device: str = "cpu") -> list[FittedModel]:
    """The models of a finished run, which must have been trained on these splits."""
    path = Path(folder)
    config = finished_config(path, splits)
    run = Run(splits, config, RunOptions(device=device, folder=path))
    if missing := run.missing_files():
        raise DataError(
            f"{path} lacks {', '.join(missing)}, which the run wrote when it was finished; "
            "'cerp train ... --resume' trains again what is missing"
        )
    return run.models()
