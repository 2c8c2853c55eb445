"""`BestSettings`: what a search found for a method, as `cerp tune` writes it to ``best.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from cerp._version import __version__
from cerp.comparison.metrics import MAIN_METRIC
from cerp.comparison.variants import config_of, merged
from cerp.errors import ConfigError


@dataclass(frozen=True)
class TriedSettings:
    """Settings that were tried, and what came of them."""

    settings: dict[str, Any]
    """By dotted names, such as ``{"train.learning_rate": 0.01}``."""
    valid: float | None
    """The metric on validation; None where training failed."""
    error: str | None = None
    """Why it failed."""
    best_epoch: int | None = None
    """That validation selected."""


@dataclass(frozen=True, repr=False)
class BestSettings:
    """Settings that a search found good for one method and backbone."""

    method: str
    backbone: str
    found: dict[str, Any]
    """The best of those that were searched, nested as in ``Config.to_dict``."""
    fixed: dict[str, Any] = field(default_factory=dict)
    """What was settled beforehand, such as the dimension."""
    budget: str | None = None
    epochs: int | None = None
    """Of training, in each trial."""
    metric: str = MAIN_METRIC
    """What was searched for, on validation."""
    valid: float | None = None
    """What it was with the best settings."""
    trials: tuple[TriedSettings, ...] = ()
    fingerprint: str | None = None
    """Of the data."""
    at_edge: tuple[str, ...] = ()
    """Settings of the best whose numbers are at the edge of what was tried, or beyond."""
    is_cut_short: bool = False
    """Whether the best trial was still rising on validation when it ended."""

    @property
    def settings(self) -> dict[str, Any]:
        """Entries of `Config` for this method: those found, over those that were fixed."""
        return merged(self.fixed, self.found)

    def to_json(self) -> dict[str, Any]:
        """As ``best.json`` has it."""
        score = f"valid_{self.metric}"
        return {
            "method": self.method,
            "backbone": self.backbone,
            "budget": self.budget,
            "epochs": self.epochs,
            "settings": self.found,
            "fixed": self.fixed,
            score: self.valid,
            "trials": [
                {
                    "settings": trial.settings,
                    score: trial.valid,
                    "error": trial.error,
                    "best_epoch": trial.best_epoch,
                }
                for trial in self.trials
            ],
            "at_edge": list(self.at_edge),
            "is_cut_short": self.is_cut_short,
            "fingerprint": self.fingerprint,
            "version": __version__,
        }

    def __repr__(self) -> str:
        score = "" if self.valid is None else f"\n  valid {self.metric} {self.valid:.4f}"
        tried = f", the best of {len(self.trials)} trials" if self.trials else ""
        return f"BestSettings({self.method} on {self.backbone}{tried}: {self.found}){score}"


def read_tuned(path: str | PathLike[str]) -> BestSettings:
    """What `cerp tune` wrote to its ``best.json``; the trials are left out."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        tuned = BestSettings(
            found["method"], found["backbone"], found["settings"], found.get("fixed", {})
        )
        settings = tuned.settings
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} holds no settings ({type(error).__name__}: {error}); "
            "give the best.json that cerp.tune wrote"
        ) from None
    config_of(tuned.method, tuned.backbone, settings)  # names what does not exist
    return tuned
