"""Model files that are judged on rows that came after them, and where such files are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cerp.data.datasets import is_split_or_name
from cerp.data.interactions import Interactions
from cerp.data.readers import read
from cerp.errors import ConfigError, DataError
from cerp.evaluation.baselines import UNTRAINED
from cerp.evaluation.later import LaterRows, later_rows
from cerp.naming import model_file
from cerp.runtime import Runtime, load


def model_in(place: Path, budget: str | None = None) -> Path:
    """A model file: the one named, or of a run the only one, or the last, as `export` takes it."""
    if place.is_file():
        return place
    if not place.exists():
        raise DataError(f"{place}: no such file or folder")
    if budget is not None:
        path = model_file(place, budget)
        if not path.is_file():
            raise ConfigError(f"{place} has no model for {budget!r}: {path} is not there")
        return path
    files = sorted(place.glob("model-*.cerp"))
    if len(files) == 1:
        return files[0]
    last = model_file(place, _last_budget(place))
    if last not in files:
        names = ", ".join(file.name for file in files) or "none"
        raise ConfigError(f"{place} has {len(files)} model files ({names}); name one of them")
    return last


def _last_budget(run: Path) -> str:
    """Of the models of a finished run, in the order that its budgets were given."""
    try:
        models = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["models"]
        return str(models[-1]["budget"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def known_to(runtime: Runtime) -> Interactions:
    """What a model has seen, as interactions."""
    seen = runtime.model.seen
    if seen is None:
        raise ConfigError(
            "this model does not say what users have seen, so that later rows cannot be told from "
            "those; export it with the seen items"
        )
    users = np.repeat(np.arange(len(runtime.users)), np.diff(seen.offsets))
    return Interactions.from_codes(users, seen.items, users=runtime.users, items=runtime.items)


def later_of(models: Sequence[str], data: str | None, seed: int) -> LaterRows | None:
    """Later rows, where a model file is given with a file of interactions it was not made of."""
    files = [name for name in models if name not in UNTRAINED and Path(name).is_file()]
    if data is None or not files or is_split_or_name(data):
        return None
    runtime = load(files[0])
    are_texts = not (runtime.users.are_integers or runtime.items.are_integers)
    later = read(data, time=False, ids="string" if are_texts else None)
    splits = later.split(seed=seed)
    if (runtime.users, runtime.items) == (splits.users, splits.items) and runtime.trained_on in (
        splits.fingerprint,
        splits.refit("train+valid").fingerprint,
    ):
        return None
    return later_rows(known_to(runtime), later)
