"""The grid of a comparison, cut into jobs that can run apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from cerp.budget import Budget
from cerp.comparison.variants import (
    POPULARITY,
    config_of,
    has_budget,
    has_vectors,
    only_backbone,
    variant,
)
from cerp.config import Config
from cerp.errors import ConfigError
from cerp.sizing.precision_plan import FULL

SEED_STEP = 10
"""Between the seeds of a comparison. A run draws from its seed and the few after it: the batches of
training with seed s are those of pruning with seed s + 1. Seeds so far apart share nothing."""


def seeds_of(count: int) -> range:
    """The seeds of so many runs of a method: 0, 10, 20, ..."""
    return range(0, SEED_STEP * count, SEED_STEP)


class Cell(NamedTuple):
    """One entry of the grid. What has no vectors has no backbone; without values, no budget."""

    method: str
    backbone: str | None
    budget: str | None
    seed: int

    @property
    def name(self) -> str:
        """As files are called."""
        return ".".join(
            part for part in (self.method, self.backbone, self.budget, f"seed{self.seed}") if part
        )


@dataclass(frozen=True)
class Job:
    """All budgets of one method, backbone and seed.

    Each is a run of its own: budgets of one run share its search and its buckets, so that a
    cell's figures would depend on which others were asked for.
    """

    method: str
    backbone: str | None
    seed: int
    budgets: tuple[str | None, ...]
    settings: tuple[dict[str, Any], ...] = ()
    """What differs from the variant's own configuration, later ones last."""
    is_tuned: bool = False
    """Whether settings of a search are among them."""
    variant: str | None = None
    """What it is a setting of, where ``method`` is a name that the caller made up."""

    @property
    def name(self) -> str:
        """As the job's folder is called."""
        return Cell(self.method, self.backbone, None, self.seed).name

    @property
    def cells(self) -> list[Cell]:
        """One for each budget."""
        return [Cell(self.method, self.backbone, budget, self.seed) for budget in self.budgets]

    @cached_property
    def config(self) -> Config | None:
        """The configuration, whatever the budgets; None where nothing is trained."""
        name = self.variant or self.method
        if name == POPULARITY:
            return None
        return config_of(name, self.backbone, *self.settings, {"seed": self.seed})

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Job:
        """The inverse of `to_dict`."""
        tuples = {name: tuple(values[name]) for name in ("budgets", "settings")}
        return cls(**{**values, **tuples})


def plan(
    methods: Sequence[str],
    backbones: Sequence[str],
    budgets: Sequence[str],
    seeds: int,
    *,
    settings: dict[str, Any] | None = None,
    tuned: dict[tuple[str, str], dict[str, Any]] | None = None,
) -> list[Job]:
    """The jobs of a grid, the first seed of everything first.

    ``tuned`` has settings by method and backbone; ``settings`` go over them.
    """
    if seeds < 1:
        raise ConfigError(f"a comparison needs at least 1 seed, got {seeds}")
    for budget in budgets:
        Budget.parse(budget)
    jobs = [Job(POPULARITY, None, 0, (None,))] if POPULARITY in methods else []
    # Nothing random is in them either: once is enough.
    jobs += [
        Job(
            name,
            None,
            0,
            tuple(dict.fromkeys(budgets)) if has_budget(name) else (None,),
            (settings,) if settings else (),
        )
        for name in methods
        if name != POPULARITY and not has_vectors(name)
    ]
    for seed in seeds_of(seeds):
        for backbone in dict.fromkeys(backbones):
            for name in methods:
                if name == POPULARITY or not has_vectors(name):
                    continue
                only = only_backbone(name)
                if only and backbone != backbones[0]:  # it is the same with every backbone
                    continue
                found = (tuned or {}).get((name, backbone))
                over = tuple(entries for entries in (found, settings) if entries)
                own = (FULL,) if variant(name).method == FULL else tuple(dict.fromkeys(budgets))
                jobs.append(Job(name, only or backbone, seed, own, over, found is not None))
    # Settings that cannot be are refused here, before anything is trained.
    dims = {job.config.dim: job.method for job in jobs if job.config is not None}
    if len(dims) > 1:
        told = ", ".join(f"{method} has {dim}" for dim, method in dims.items())
        raise ConfigError(
            f"vectors of one comparison must have the same dimension, or budgets in percent mean "
            f"different things: {told}. Give dim, or settings that were found for the same one"
        )
    return jobs


def is_size(budget: str) -> bool:
    """Whether a budget is in bytes."""
    return budget != FULL and Budget.parse(budget).size is not None
