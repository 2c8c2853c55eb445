"""From a recipe to the jobs of a comparison.

A job is called after what decides its result, a digest of its settings among
it. So recipes that need the same run share it, and a changed recipe never finds
the results of the old one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cerp import methods
from cerp.comparison.jobs import Job, seeds_of
from cerp.comparison.variants import (
    POPULARITY,
    config_of,
    has_budget,
    has_vectors,
    merged,
    nested,
    variant,
)
from cerp.config import RENAMED, Config, differences
from cerp.errors import ConfigError, MissingExtra
from cerp.paper.published import bucket_count
from cerp.paper.recipe import Recipe, RecipeRun
from cerp.paper.searched import searched_settings
from cerp.presets import preset, teacher_preset
from cerp.sizing.precision_plan import FULL

AS_PRINTED = {"cerp": "cerp-hash"}
"""What the paper calls CERP hashes ids; the variant of that name chooses rows as is best."""

OF_BEST_FULL = ("magnitude-best", "magnitude-gradual")
"""Variants that prune the best full table that there is. What is left of it trains by the settings
that were searched for pruned tables: by those of the full table it validates far worse (lastfm at
99%: .079 for .125)."""


@dataclass(frozen=True)
class Planned:
    """A job, and the run of the recipe that it belongs to."""

    run: RecipeRun
    job: Job

    @property
    def ordering(self) -> str | None:
        """The order of ids, where the method's vectors depend on it."""
        config = self.job.config
        if config is None or self.lacks is not None:
            return None
        if not methods.method(config.method, config.method_options).is_ordered:
            return None
        return config.ordering if config.assignment == "hash" else None

    @property
    def lacks(self) -> str | None:
        """Why it cannot be run here, where the method needs a package that is not installed."""
        config = self.job.config
        method = None if config is None else methods.METHODS[config.method]
        if method is None or method.package is None or method.is_installed():
            return None
        return str(MissingExtra(f"The method {self.run.method!r}", *method.package))


def plan(recipe: Recipe, dataset: str, seeds: int | None = None) -> list[Planned]:
    """Every job of a recipe, the first seed of everything first; ``seeds`` goes over its own."""
    if seeds is not None and seeds < 1:
        raise ConfigError(f"a recipe needs at least 1 seed, got {seeds}")
    numbers = [seeds or run.seeds for run in recipe.runs]
    found: dict[str, Planned] = {}
    for place, seed in enumerate(seeds_of(max(numbers, default=0))):
        for backbone in recipe.backbones:
            for run, number in zip(recipe.runs, numbers, strict=True):
                if place < number and backbone in (run.backbones or recipe.backbones):
                    for job in _jobs(recipe, run, dataset, backbone, seed):
                        found.setdefault(job.name, Planned(run, job))
    return list(found.values())


def restricted(
    planned: Sequence[Planned],
    *,
    methods: Sequence[str] = (),
    backbones: Sequence[str] = (),
    budgets: Sequence[str] = (),
) -> list[Planned]:
    """The part of a plan with these methods, backbones and budgets; empty ones mean all.

    Methods come in the order in which they are named, each with all of its seeds.
    """
    _refuse_unknown("method", methods, [one.run.method for one in planned])
    _refuse_unknown("backbone", backbones, [one.job.backbone for one in planned])
    _refuse_unknown("budget", budgets, [budget for one in planned for budget in one.job.budgets])
    kept = [
        replace(one, job=replace(one.job, budgets=_among(one.job.budgets, budgets)))
        for one in planned
        if (not methods or one.run.method in methods)
        and (not backbones or one.job.backbone in (*backbones, None))
    ]
    if methods:
        kept.sort(key=lambda one: methods.index(one.run.method))
    return [one for one in kept if one.job.budgets]


def _jobs(recipe: Recipe, run: RecipeRun, dataset: str, backbone: str, seed: int) -> list[Job]:
    """One, or as many as the budgets were found to need different settings."""
    if run.method == POPULARITY:
        return [Job(POPULARITY, None, 0, (None,))]
    if not has_vectors(run.method):  # the same for every backbone and seed
        own = (tuple(run.budgets) or recipe.budgets) if has_budget(run.method) else (None,)
        entries = tuple(filter(None, [recipe.settings, run.settings]))
        return [_named(run, Job(run.method, None, 0, own, entries, variant=run.method))]
    method = variant(run.method).method
    budgets = (FULL,) if method == FULL else tuple(run.budgets) or recipe.budgets
    settings: list[dict[str, Any]] = []
    if run.preset == "paper":
        settings += [preset("paper", backbone, method).to_dict()]
        settings += [{"buckets": bucket_count(dataset)}]  # elsewhere by the rule
    over = [recipe.settings, run.settings]
    if recipe.setting is not None:
        over += [nested({recipe.setting: run.value})]
    jobs: dict[str, Job] = {}
    name = AS_PRINTED.get(run.method, run.method)
    # Two ways to choose rows are two methods to a search; the paper's settings are the paper's.
    searched = name if method == "cerp" else method
    is_searched = recipe.searched and run.preset == "default"
    for budget in budgets:
        found = searched_settings(dataset, searched, backbone, budget) if is_searched else {}
        if is_searched and run.method in OF_BEST_FULL:
            found = merged(found, {"method_options": _best_full(dataset, backbone, budget)})
        entries = tuple(filter(None, [*settings, found, *over]))
        job = _named(run, Job(run.method, backbone, seed, (budget,), entries, variant=name))
        known = jobs.get(job.name)
        jobs[job.name] = job if known is None else replace(known, budgets=(*known.budgets, budget))
    return list(jobs.values())


def _best_full(dataset: str, backbone: str, budget: str) -> dict[str, Any]:
    """How the best full table of this data is trained, for what prunes it; else as a teacher is."""
    found = searched_settings(dataset, FULL, backbone, budget)
    if not found:
        return {}
    best = config_of(FULL, backbone, found).train
    usual = teacher_preset(backbone, Config.dim, 0).train
    told = {name: own for name, own in asdict(best).items() if own != getattr(usual, name)}
    return {"dense_epochs": told.pop("epochs", usual.epochs), "dense_training": told}


def _named(run: RecipeRun, job: Job) -> Job:
    return replace(job, method=f"{run.method}-{run.preset}-{_digest(job)}")


def _digest(job: Job) -> str:
    """Of what differs from the defaults, so that a setting that is new in cerp changes nothing."""
    assert job.config is not None
    told = "\n".join(
        differences(_by_first_names(replace(job.config, seed=0)), _by_first_names(Config()))
    )
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def _by_first_names(config: Config) -> dict[str, Any]:
    """By the names that settings had when the first results were digested."""
    first = {new: old for old, new in RENAMED.items()}
    return {first.get(name, name): value for name, value in config.to_dict().items()}


def _among(budgets: tuple[str | None, ...], wanted: Sequence[str]) -> tuple[str | None, ...]:
    """The wanted budgets; what has none of its own, such as the full size, always stays."""
    return tuple(budget for budget in budgets if not wanted or budget in (*wanted, FULL, None))


def _refuse_unknown(what: str, asked: Sequence[str], known: Sequence[str | None]) -> None:
    names = [name for name in dict.fromkeys(known) if name is not None]
    for name in asked:
        if name not in names:
            raise ConfigError(f"the recipe has no {what} {name!r}; it has {', '.join(names)}")
