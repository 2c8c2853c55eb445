"""What a search chooses from: the same for every method, and what each has of its own.

A point of a space has names of settings, such as ``train.learning_rate``, and for the decay of
weights three of its own: ``decay`` (none, l2 or decoupled), and how strong each of both would be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cerp.config import Config

DECAY, L2, DECOUPLED = "decay", "decay.l2", "decay.decoupled"
EDGE = 0.05
"""The share of a range, by its logarithm, at either end that is called its edge."""
FURTHER = 3.0
"""How far beyond an edge the next value is tried, as a factor."""


class Range(NamedTuple):
    """Numbers from low to high, searched by their logarithm."""

    low: float
    high: float
    has_lower: bool = True
    """Whether numbers below make sense: not where less means none, which is a choice of its own."""


Space = dict[str, Sequence[Any] | Range]
"""What each name is chosen from."""

SHARED: Space = {
    "train.learning_rate": Range(3e-4, 3e-2),
    DECAY: ("none", "l2", "decoupled"),
    L2: Range(1e-7, 1e-4, has_lower=False),
    DECOUPLED: Range(1e-2, 0.3, has_lower=False),
    "train.schedule": ("constant", "cosine"),
}
"""What is searched for every method. Pruning, where there is any, decays as training does."""

STARTS: tuple[dict[str, Any], ...] = (
    {"train.learning_rate": 5e-3, DECAY: "decoupled", DECOUPLED: 0.04, "train.schedule": "cosine"},
    {"train.learning_rate": 5e-3, DECAY: "decoupled", DECOUPLED: 0.08, "train.schedule": "cosine"},
    {"train.learning_rate": 1e-2, DECAY: "l2", L2: 1e-7, "train.schedule": "constant"},
)
"""Training that was best for some method on Gowalla: full size, CERP with learned rows, and most of
the others among those with L2 (results/gowalla). Every search tries them after the preset, with
what the preset has of the method's own: no method is to fall behind for want of a recipe that
another one has."""


def settings_of(point: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of `Config`, by dotted names, that a point stands for."""
    kinds = {
        "none": ("adam", 0.0),
        "l2": ("adam", point.get(L2, 0.0)),
        "decoupled": ("adamw", point.get(DECOUPLED, 0.0)),
    }
    optimizer, strength = kinds[point[DECAY]]
    decay = {
        f"{stage}.{name}": value
        for stage in ("train", "prune")
        for name, value in (("optimizer", optimizer), ("weight_decay", strength))
    }
    return {name: value for name, value in point.items() if not name.startswith(DECAY)} | decay


def point_of(config: Config, space: Space) -> dict[str, Any]:
    """Where a configuration stands in a space; what it does not say is in the middle, or first."""
    plain = config.to_dict()
    is_decoupled = config.train.optimizer == "adamw"
    strength = config.train.weight_decay
    given: dict[str, Any] = {
        DECAY: "none" if not strength else "decoupled" if is_decoupled else "l2",
        L2: None if is_decoupled else strength or None,
        DECOUPLED: strength if is_decoupled and strength else None,
    }
    return {
        name: _within(given.get(name) or _entry(plain, name), choices)
        for name, choices in space.items()
    }


def starting_points(config: Config, space: Space) -> list[dict[str, Any]]:
    """What every search tries first: the preset, then `STARTS` in its place, each once."""
    preset = point_of(config, space)
    points = [preset, *(preset | start for start in STARTS)]
    return [point for place, point in enumerate(points) if point not in points[:place]]


def edges(point: Mapping[str, Any], space: Space) -> dict[str, float]:
    """Names whose number is at or beyond an edge of its range, and what to try further out."""
    found = {}
    for name, choices in space.items():
        if not isinstance(choices, Range) or not _matters(name, point):
            continue
        value, width = float(point[name]), math.log(choices.high / choices.low)
        place = math.log(value / choices.low) / width
        if place <= EDGE and choices.has_lower:
            found[name] = min(value, choices.low) / FURTHER
        elif place >= 1 - EDGE:
            found[name] = max(value, choices.high) * FURTHER
    return found


def _matters(name: str, point: Mapping[str, Any]) -> bool:
    """Strengths of a decay that was not chosen do nothing."""
    return name not in (L2, DECOUPLED) or name == f"{DECAY}.{point[DECAY]}"


def _entry(plain: Mapping[str, Any], name: str) -> Any:
    """A nested entry; None where there is none."""
    found: Any = plain
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _within(value: Any, choices: Sequence[Any] | Range) -> Any:
    """A value of the choices: itself, or the nearest."""
    if isinstance(choices, Range):
        middle = math.sqrt(choices.low * choices.high)
        return min(max(float(value or middle), choices.low), choices.high)
    return value if value in choices else choices[0]
