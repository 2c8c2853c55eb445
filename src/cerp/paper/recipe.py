"""Recipes: what to run for a table or figure, as TOML files in ``recipes/``."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from cerp.errors import ConfigError
from cerp.presets import PresetName

Kind = Literal["statistics", "methods", "ablation", "sensitivity", "heatmap"]
"""What is made of the results."""

NOT_WRITTEN = ("name", "runs")
"""What a recipe gets from the name of its file and from its ``[[run]]`` tables."""


@dataclass(frozen=True)
class RecipeRun:
    """One line of a table or one point of a figure: a method under one setting."""

    method: str
    """As `cerp.comparison.variants` calls it."""
    preset: PresetName = "default"
    seeds: int = 1
    budgets: list[str] = field(default_factory=list)
    """Where a method is run under some of the recipe's budgets only."""
    backbones: list[str] = field(default_factory=list)
    """Where a method is run with some of the recipe's backbones only."""
    variant: str | None = None
    """What tells it from the others of an ablation or a heat map."""
    value: str | float | None = None
    """Of the recipe's ``setting``, in a sensitivity."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Entries of `Config` that differ from the preset, nested as in ``Config.to_dict``."""

    @property
    def row(self) -> RecipeRun:
        """What makes it another row of a table: not how many seeds it has, or in which cells."""
        return replace(self, seeds=1, budgets=[], backbones=[])

    def __post_init__(self) -> None:
        if self.preset not in get_args(PresetName):
            known = ", ".join(get_args(PresetName))
            raise ConfigError(f"there is no preset {self.preset!r}; choose one of {known}")


@dataclass(frozen=True)
class Recipe:
    """What to run, and what to make of it."""

    name: str
    title: str
    kind: Kind
    about: str = ""
    """What to know when reading the result."""
    budgets: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    runs: tuple[RecipeRun, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    """For all runs; those of a run go over them."""
    setting: str | None = None
    """What a sensitivity varies, such as ``prune.gamma``."""
    searched: bool = False
    """Whether methods get the settings that a search found for the data set, where there was
    one (see `cerp.paper.searched`)."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            known = ", ".join(get_args(Kind))
            raise ConfigError(f"recipe {self.name}: kind is {self.kind!r}; choose one of {known}")
        if self.kind != "statistics" and not (self.budgets and self.backbones and self.runs):
            raise ConfigError(
                f"recipe {self.name} trains nothing: it needs budgets, backbones and [[run]]s"
            )
        if (self.kind == "sensitivity") != (self.setting is not None):
            raise ConfigError(
                f"recipe {self.name}: a sensitivity, and nothing else, names a setting and values"
            )


def recipe_names() -> list[str]:
    """The recipes that come with cerp."""
    return sorted(entry.name.removesuffix(".toml") for entry in _folder().iterdir())


def read_recipe(name: str) -> Recipe:
    """A recipe by name, or from a TOML file of the caller's own."""
    path = _folder() / f"{name}.toml"
    if name.endswith(".toml"):
        path = Path(name)
    elif name not in recipe_names():
        raise ConfigError(
            f"there is no recipe {name!r}; choose one of {', '.join(recipe_names())}, "
            "or give a .toml file"
        )
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not a readable recipe: {error}") from None
    try:
        return _recipe(path.stem, values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _recipe(name: str, values: dict[str, Any]) -> Recipe:
    """``[[run]]`` tables become runs; with ``values``, one for each value of the setting."""
    entries, choices = values.pop("run", []), values.pop("values", None)
    lists = {**values, "run": entries, "values": choices or []}
    for key in ("budgets", "backbones", "run", "values"):
        if not isinstance(lists.get(key, []), list):
            raise ConfigError(f"the entry {key!r} is {lists[key]!r}; it must be a list")
    _check_entries(values, Recipe, "the recipe")
    for entry in entries:
        _check_entries(entry, RecipeRun, "a [[run]]")
    if choices is not None:
        entries = [{**entry, "value": choice} for entry in entries for choice in choices]
    values |= {key: tuple(values.get(key, ())) for key in ("budgets", "backbones")}
    return Recipe(name=name, runs=tuple(RecipeRun(**entry) for entry in entries), **values)


def _check_entries(values: Any, kind: type[Recipe | RecipeRun], what: str) -> None:
    """Refuse a table with entries that are unknown, or without one that has no default."""
    if not isinstance(values, dict):
        raise ConfigError(f"{what} is {values!r}; it must be a table of entries")
    known = {entry.name: entry for entry in fields(kind) if entry.name not in NOT_WRITTEN}
    if unknown := sorted(values.keys() - known.keys()):
        raise ConfigError(
            f"{what} has no entry {unknown[0]!r}; there are: {', '.join(sorted(known))}"
        )
    for name, entry in known.items():
        if name not in values and entry.default is MISSING and entry.default_factory is MISSING:
            raise ConfigError(f"{what} lacks the entry {name!r}; add it, as in {name} = ...")


def _folder() -> Path:
    return Path(str(files("cerp.paper"))) / "recipes"
