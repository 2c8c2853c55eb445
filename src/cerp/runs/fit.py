"""`fit`: from data to trained models under their budgets.

With a folder, every finished stage leaves its product there (`cerp.runs.products`),
so that an interrupted run goes on with the stage it was in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cerp import presets
from cerp.callbacks import Callback
from cerp.choices import Assignment
from cerp.config import Config, RunOptions, doubts
from cerp.data.ids import Float32Array
from cerp.data.interactions import Interactions
from cerp.data.readers import read
from cerp.data.splits import Splits
from cerp.errors import ConfigError, DataError
from cerp.export.to_arrays import final_vectors
from cerp.methods import METHODS
from cerp.methods.als.teacher import teacher_vectors
from cerp.methods.svd.teacher import svd_teacher
from cerp.models import BACKBONES
from cerp.presets import ALS, SVD, PresetName, teacher_preset, with_settings
from cerp.runs.fitted_model import FittedModel
from cerp.runs.folder import RunFolder, refuse_other
from cerp.runs.kept_split import keep_split, what_changed
from cerp.runs.pipeline import Pipeline
from cerp.runs.planning import make_plan, pipeline
from cerp.runs.products import Plan
from cerp.runs.suited_to_data import suited_to_data
from cerp.training.devices import chosen_device
from cerp.training.distributed import rank, refuse_separate_folders


def fit(
    data: Any,
    budget: str | int | None = None,
    *,
    backbone: str | None = None,
    method: str | None = None,
    preset: PresetName = "default",
    config: Config | None = None,
    device: str = "auto",
    output: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    verbose: bool = True,
    callbacks: Iterable[Callback] = (),
    **settings: Any,
) -> FittedModel:
    """Choose codebook rows, prune, retrain, select on validation, and read the test part once.

    Parameters
    ----------
    data
        `Splits`, or anything that `cerp.read` reads (a DataFrame, a path, `Interactions`),
        which is then split at random by the seed.
    budget
        A pruned share (``"99%"``, the default), a count of values, or bytes of the embedding
        (``"400KB"``).
    backbone, method
        By name; LightGCN and CERP by default.
    preset
        Where all that is not given comes from: ``default`` or ``paper``.
    config
        A whole configuration, in place of a preset; nothing else that decides the result can
        then be given.
    device
        ``auto``, ``cpu``, ``cuda``, or one of several such as ``cuda:1``.
    output
        A folder for the run: its products, curves and checkpoints.
    resume
        Go on with the run that is in ``output``.
    overwrite
        Remove the run that is in ``output``, and train anew.
    verbose
        Whether to show progress, on standard error.
    callbacks
        Who is told of stages, epochs and the end, see `cerp.Callback`.
    **settings
        In place of the preset's: ``dim=16``, ``epochs=5``, ``prune_epochs``, ``seed``,
        ``max_file_size="2MB"`` and the like. They mean what the options of ``cerp train``
        mean; `cerp.presets.WORDS` lists them.

    Returns
    -------
    FittedModel
        The model, with its figures; `FittedModel.save` writes its file.

    """
    chosen = _configured(budget, backbone, method, preset, config, settings)
    folder = None if output is None else Path(output)
    options = RunOptions(
        *(chosen_device(device), folder, resume, overwrite),
        quiet=not verbose,
        callbacks=tuple(callbacks),
    )
    splits = as_splits(data, chosen.seed, verbose=verbose)
    if config is None:
        build = partial(_of_preset, budget, backbone, method, preset, settings)
        asked = presets.wanted_assignment(settings)
        chosen, why = suited_to_data(build, preset, asked, settings.get("teacher"), splits)
        if why is not None and verbose:
            print(f"note: {why}", file=sys.stderr)  # noqa: T201
    for doubt in (*doubts(chosen), *doubts_of_weights(splits, chosen)) if verbose else ():
        print(f"warning: {doubt}", file=sys.stderr)  # noqa: T201
    model = fit_all(splits, chosen, options)[0]
    if folder is not None and rank() == 0:
        keep_split(folder, splits)
    return model


def _configured(
    budget: str | int | None,
    backbone: str | None,
    method: str | None,
    preset: PresetName,
    config: Config | None,
    settings: dict[str, Any],
) -> Config:
    if config is None:
        asked = presets.wanted_assignment(settings)
        teacher = settings.get("teacher")
        return _of_preset(budget, backbone, method, preset, settings, asked, teacher)
    beside = {"budget": budget, "backbone": backbone, "method": method, **settings}
    given = [name for name, value in beside.items() if value is not None]
    if given or preset != "default":
        raise ConfigError(
            f"a config says everything, and {', '.join(given) or 'preset'} is given beside "
            "it; put it into the config (dataclasses.replace), or leave the config out and give "
            "all settings as arguments, which then change the preset"
        )
    if len(config.budgets) > 1:
        raise ConfigError(
            f"fit gives one model, and the configuration has {len(config.budgets)} budgets; give "
            "one, or call cerp.runs.fit.fit_all for a model of each"
        )
    return config


def _of_preset(
    budget: str | int | None,
    backbone: str | None,
    method: str | None,
    preset: PresetName,
    settings: dict[str, Any],
    assignment: Assignment | None,
    teacher: str | None,
) -> Config:
    base = presets.preset(preset, backbone, method or "cerp", teacher, assignment)
    return with_settings(base, () if budget is None else (str(budget),), settings)


def as_splits(data: Any, seed: int, *, verbose: bool) -> Splits:
    """The data that `fit` takes, split by the seed unless it is split already."""
    if isinstance(data, Splits):
        return data
    splits = (data if isinstance(data, Interactions) else read(data)).split(seed=seed)
    if verbose:
        print(  # noqa: T201
            f"split at random by seed {seed}: {len(splits.train):,} interactions to train, "
            f"{len(splits.valid):,} to validate, {len(splits.test):,} to test",
            file=sys.stderr,
        )
    return splits


def doubts_of_weights(splits: Splits, config: Config) -> list[str]:
    """What to say where interactions have weights that a method does not look at."""
    if splits.train.weight is None or METHODS[config.method].has_vectors:
        return []
    return [
        f"the method {config.method!r} learns from which pairs there are and does not look at "
        "weights; methods with vectors do"
    ]


def fit_all(splits: Splits, config: Config, options: RunOptions) -> list[FittedModel]:
    """One model per budget of the configuration, in the order given."""
    if options.folder is None:
        plan = make_plan(splits, config, options)
        stages = pipeline(plan, splits, options, _teacher(splits, config, options))
        models = stages.models()
        _tell_the_end(stages, models)
        return models
    folder = RunFolder(options.folder)
    refuse_separate_folders(folder.path, has_run=folder.plan() is not None)
    # What cannot be is refused before there is a folder.
    is_there = not options.overwrite and folder.plan()
    new = None if is_there else make_plan(splits, config, options)
    with folder.claimed():
        if options.overwrite:
            folder.clear()
        # Read inside the lock: what another process left meanwhile is not taken for one's own.
        plan = _agreed_plan(folder, new, splits, config, options)
        stages = pipeline(plan, splits, options, _teacher(splits, config, options))
        is_new = not folder.is_finished or folder.missing(plan)
        models = stages.models()
        if is_new:
            folder.finish(stages.result(models))
        _tell_the_end(stages, models)
    return models


def _tell_the_end(stages: Pipeline, models: list[FittedModel]) -> None:
    if stages.options.callbacks and rank() == 0:
        result = stages.result(models)
        for callback in stages.options.callbacks:
            callback.on_end(result)


def _agreed_plan(
    folder: RunFolder, new: Plan | None, splits: Splits, config: Config, options: RunOptions
) -> Plan:
    """The plan in the folder, if it is this run's; else the new one, which then goes there."""
    there = folder.plan()
    if there is None:
        new = new or make_plan(splits, config, options)  # one that was there has been removed
        folder.write_plan(new)
        return new
    refuse_other(folder.path, there, config, splits)
    if rank() == 0 and not options.resume:
        raise ConfigError(
            f"{folder.path} holds this run already; give resume=True to go on, or overwrite=True "
            "to train anew"
        )
    return there


def _teacher(
    splits: Splits, config: Config, options: RunOptions
) -> Callable[[], Float32Array] | None:
    """What gives the final vectors of the teacher, if there is one."""
    if config.teacher is None:
        return None
    return partial(_teacher_vectors, config.teacher, splits, config, options)


def _teacher_vectors(
    teacher: str, splits: Splits, config: Config, options: RunOptions
) -> Float32Array:
    """Of a backbone that is trained now, of a finished run, or of a file; users first."""
    if teacher.endswith(".npy"):
        vectors = _read_vectors(Path(teacher))
    elif teacher == SVD:
        vectors = svd_teacher(
            splits,
            config.dim,
            metric=config.selection_metric,
            seed=config.seed,
            quiet=options.quiet or rank() > 0,
        )
    else:
        if teacher == ALS or teacher in BACKBONES:
            place = options.folder and options.folder / "teacher"
            own = replace(options, folder=place, resume=True, overwrite=False, callbacks=())
            model = fit_all(splits, teacher_preset(teacher, config.dim, config.seed), own)[0]
        else:
            model = load_run(teacher, splits, device=options.device)[0]
        if model.recommender is None:
            raise ConfigError(f"the teacher {teacher!r} has no vectors to learn from")
        tables = final_vectors(model.recommender)
        vectors = np.concatenate([tables.users, tables.items])
        if model.config.method == ALS and vectors.shape[1] <= config.dim:
            vectors = teacher_vectors(vectors, splits, config.dim, config.seed)
    if vectors.shape != (splits.num_entities, config.dim):
        raise DataError(
            f"the teacher {teacher!r} has vectors of the shape {vectors.shape}; a student of "
            f"dimension {config.dim} needs one for each of {splits.num_entities:,} users and "
            "items, users first"
        )
    return vectors


def _read_vectors(path: Path) -> Float32Array:
    try:
        return np.load(path, allow_pickle=False).astype(np.float32)  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} is no readable array ({error}); save one with numpy.save"
        ) from None


def load_run(folder: str | Path, splits: Splits, *, device: str = "cpu") -> list[FittedModel]:
    """The models of a finished run, which must have been trained on these splits.

    They are read from what the run stored; nothing is computed again.
    """
    there = RunFolder(Path(folder))
    plan = there.plan()
    if plan is None or not there.is_finished:
        raise DataError(
            f"{folder} holds no finished run; if it was interrupted, train again with resume=True"
        )
    if plan.fingerprint != splits.learning_fingerprint:
        raise DataError(
            f"{folder} was trained on other data than this: {what_changed(there.path, splits)}. "
            "If the data has changed since, train again; leave the data out to take the split that "
            f"the run keeps. Rows that came later judge a model file, {there.path}/model-*.cerp"
        )
    if missing := there.missing(plan):
        raise DataError(
            f"{folder} lacks {', '.join(missing)}, which the run wrote when it was finished; "
            "training with resume=True makes again what is missing"
        )
    try:
        options = RunOptions(device=device, folder=there.path)
        return pipeline(plan, splits, options).models()
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise DataError(
            f"the files in {folder} do not fit together ({type(error).__name__}: {error}); were "
            "some of them changed? Put them back, or train again into another folder"
        ) from error
