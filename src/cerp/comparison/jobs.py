"""The grid of a comparison, cut into jobs that can run apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from cerp.budget import Budget
from cerp.candidates import FULL
from cerp.comparison.variants import POPULARITY, VARIANTS, config_of
from cerp.config import Config
from cerp.errors import ConfigError
from cerp.methods import Method, method


class Cell(NamedTuple):
    """One entry of the grid. Popularity has neither backbone nor budget."""

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
    """All budgets of one method, backbone and seed: a search may serve several of them."""

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
    shares_search: bool = True
    """Whether one search serves all budgets in values, where the method searches."""

    @property
    def name(self) -> str:
        """As the job's folder is called."""
        return Cell(self.method, self.backbone, None, self.seed).name

    @property
    def cells(self) -> list[Cell]:
        """One for each budget."""
        return [Cell(self.method, self.backbone, budget, self.seed) for budget in self.budgets]

    @property
    def config(self) -> Config | None:
        """The configuration, whatever the budgets; None where nothing is trained."""
        if self.backbone is None:
            return None
        name = self.variant or self.method
        return config_of(name, self.backbone, *self.settings, {"seed": self.seed})

    def runs(self) -> list[tuple[str, ...]]:
        """The budgets that are trained in one run.

        Where a method searches, one search serves all budgets in values. Each
        size in bytes has a run of its own, since the budgets of a run decide on
        the buckets of its codebooks: a size must not change what 99% means.
        """
        budgets = [budget for budget in self.budgets if budget is not None]
        in_values = tuple(budget for budget in budgets if not is_size(budget))
        searched = method(VARIANTS[self.variant or self.method].method)
        if len(in_values) < 2 or not (self.shares_search and _searches(searched)):
            return [(budget,) for budget in budgets]
        return [in_values, *((budget,) for budget in budgets if is_size(budget))]

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
    for seed in range(seeds):
        for backbone in dict.fromkeys(backbones):
            for name in methods:
                if name == POPULARITY:
                    continue
                found = (tuned or {}).get((name, backbone))
                over = tuple(entries for entries in (found, settings) if entries)
                own = (FULL,) if VARIANTS[name].method == FULL else tuple(dict.fromkeys(budgets))
                jobs.append(Job(name, backbone, seed, own, over, found is not None))
    for job in jobs:
        _ = job.config  # refuses settings that cannot be, before anything is trained
    return jobs


def is_size(budget: str) -> bool:
    """Whether a budget is in bytes."""
    return budget != FULL and Budget.parse(budget).size is not None


def _searches(found: Method) -> bool:
    return type(found).search is not Method.search
