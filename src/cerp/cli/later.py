"""Rows that came after a model: how they are read and judged; and where model files are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cerp.cli.options import column, tab_or
from cerp.data.datasets import is_split_or_name
from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.readers import read_later
from cerp.errors import ConfigError, DataError
from cerp.evaluation.baselines import UNTRAINED
from cerp.evaluation.later import LaterRows, later_rows
from cerp.naming import model_file
from cerp.runtime import Runtime, load

UserColumn = Annotated[
    str | None, typer.Option(help="Column of user ids in a file: a name, or a position from 0.")
]
ItemColumn = Annotated[str | None, typer.Option(help="Column of item ids in a file.")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether line 1 names the columns.")
]
Delimiter = Annotated[str | None, typer.Option(help="What separates the columns of a text file.")]
Where = Annotated[
    str | None,
    typer.Option(help="Which rows of a file to take, in SQL, such as \"event = 'purchase'\"."),
]


@dataclass(frozen=True)
class Reading:
    """How a file of later rows is read, by the names of the command line."""

    user: str | None
    item: str | None
    header: bool | None
    delimiter: str | None
    where: str | None

    @property
    def options(self) -> dict[str, Any]:
        """As `cerp.read` takes them."""
        return {
            "user": column(self.user),
            "item": column(self.item),
            "header": self.header,
            "delimiter": tab_or(self.delimiter),
            "where": self.where,
        }

    def rows(self, path: str | Path, users: Ids, items: Ids) -> Interactions:
        """The rows, with ids of the kind that a model has."""
        are_texts = not (users.are_integers or items.are_integers)
        # Also where new ones look like numbers.
        return read_later(path, ids="string" if are_texts else None, **self.options)


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


def later_of(
    models: Sequence[str], data: str | None, seed: int, reading: Reading
) -> LaterRows | None:
    """Later rows, where a model file is given with a file of interactions it was not made of."""
    files = [name for name in models if name not in UNTRAINED and Path(name).is_file()]
    if data is None or not files or is_split_or_name(data):
        return None
    runtime = load(files[0])
    later = reading.rows(data, runtime.users, runtime.items)
    if (runtime.users, runtime.items) == (later.users, later.items):
        splits = later.split(seed=seed)
        of_training = (splits.fingerprint, splits.refit("train+valid").fingerprint)
        if runtime.trained_on in of_training:
            return None
    return later_rows(known_to(runtime), later)
