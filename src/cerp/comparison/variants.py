"""What can be compared: the methods of the registry, and settings of them with a name.

Beside each stands what may be searched for it; see `cerp.comparison.tune`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cerp.comparison.search_space import Range, Space
from cerp.config import Config
from cerp.errors import ConfigError
from cerp.methods import METHODS
from cerp.models import backbones
from cerp.presets import preset, wanted_assignment

POPULARITY = "popularity"
"""The floor of every table; it is not trained."""

ALL = "all"


@dataclass(frozen=True)
class Variant:
    """A method of the registry with settings of its own."""

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Entries of `Config` that differ from the preset, nested as in ``Config.to_dict``."""
    space: Space = field(default_factory=dict)
    """What is searched beside `cerp.comparison.search_space.SHARED`."""


_PRUNING: Space = {"prune.learning_rate": Range(5e-4, 1e-2)}
_CERP: Space = _PRUNING | {
    "prune.gamma": Range(1e-5, 1e-1),
    "rewind": ("pruned", "initial"),
}
_QR: Space = {"method_options.operation": ("mult", "add", "concat")}

_BOOKS: Space = {"method_options.books": (4, 8, 16)}

NAMED: dict[str, Variant] = {
    "autoemb": Variant(
        "autoemb", space={"method_options.controller_learning_rate": Range(1e-5, 1e-2)}
    ),
    "cce": Variant(
        "cce", space={"method_options.chunks": (4, 2, 8), "method_options.every": (1, 2, 5)}
    ),
    "esapn": Variant(
        "esapn", space=_PRUNING | {"method_options.policy_learning_rate": Range(1e-5, 1e-2)}
    ),
    "features": Variant("features", space={"method_options.damping": Range(0.1, 10.0)}),
    "opq": Variant("opq", space=_BOOKS),
    "optembed": Variant(
        "optembed",
        space=_PRUNING
        | {
            "method_options.threshold_learning_rate": Range(1e-2, 1.0),
            "method_options.threshold_penalty": Range(1e-3, 1e-1),
        },
    ),
    "pq": Variant("pq", space=_BOOKS),
    "rq": Variant("rq", space=_BOOKS),
    "cerp": Variant("cerp", space=_CERP),
    # How entities get their rows, whatever the preset does.
    "cerp-hash": Variant("cerp", {"assignment": "hash"}, _CERP),
    "cerp-learned": Variant("cerp", {"assignment": "learned"}, _CERP),
    # The control: what is left when the order of ids says nothing.
    "cerp-shuffled": Variant("cerp", {"ordering": "shuffled"}, _CERP),
    "dhe-honest": Variant("dhe", {"method_options": {"accounting": "honest"}}),
    # The trained table, rounded: what quantisation has to beat.
    "full-int4": Variant("full", {"value_precision": "int4"}),
    "full-int8": Variant("full", {"value_precision": "int8"}),
    "magnitude": Variant("magnitude", space=_PRUNING),
    # From a full table that is trained to its end, pruned when it is over or on the way.
    "magnitude-best": Variant("magnitude", {"method_options": {"dense_epochs": 250}}),
    "magnitude-gradual": Variant(
        "magnitude",
        {"method_options": {"dense_epochs": 250, "pace": "gradual"}, "prune": {"dense_share": 0.0}},
    ),
    "magnitude-codebooks": Variant("magnitude", {"method_options": {"of": "codebooks"}}, _PRUNING),
    "pep": Variant("pep", space=_PRUNING),
    # Like CERP, QR shares rows between neighbours: raw ids would leak here too.
    "qr": Variant("qr", {"ordering": "shuffled"}, _QR),
    "qr-spectral": Variant("qr", {"ordering": "spectral"}, _QR),
    "ud-int4": Variant("ud", {"value_precision": "int4"}),
    "ud-int8": Variant("ud", {"value_precision": "int8"}),
}
"""Settings with a name, and methods of which more than the usual is searched."""


def variants() -> dict[str, Variant]:
    """All that can be trained, by the names that tables show.

    Every method of the registry, those of other packages among them, and `NAMED`.
    """
    return {name: Variant(name) for name in METHODS.names()} | NAMED


def variant(name: str) -> Variant:
    """A trained variant by name."""
    if name in NAMED:
        return NAMED[name]
    if name in METHODS:
        return Variant(name)
    raise ConfigError(f"unknown method {name!r}; choose among {', '.join(variants())}")


def chosen_names(asked: Sequence[str]) -> list[str]:
    """The names in texts such as ``all`` or ``cerp,ud``, each once."""
    names = [name.strip() for text in asked for name in text.split(",")]
    if ALL in names:
        return [POPULARITY, *filter(_is_installed, _unlike_each_other())]
    known = [ALL, POPULARITY, *variants()]
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown method {name!r}; choose among {', '.join(known)}")
    return list(dict.fromkeys(names))


def _unlike_each_other() -> list[str]:
    """All variants but those whose settings are, at present, what another one has anyway."""
    first: dict[str, str] = {}
    for name in variants():
        first.setdefault(json.dumps(config_of(name, "mf").to_dict(), sort_keys=True), name)
    return list(first.values())


def _is_installed(name: str) -> bool:
    return METHODS[variant(name).method].is_installed()


def only_backbone(name: str) -> str | None:
    """The backbone that a variant goes with, where that is one alone."""
    return METHODS[variant(name).method].only_backbone


def is_trained(name: str) -> bool:
    """Whether training has settings that can be tuned."""
    found = METHODS[variant(name).method]
    return found.has_vectors and found.is_trained


def has_vectors(name: str) -> bool:
    """Whether a trained variant has vectors, and so a backbone."""
    return METHODS[variant(name).method].has_vectors


def has_budget(name: str) -> bool:
    """Whether a budget limits what a trained variant stores."""
    return METHODS[variant(name).method].has_budget


def config_of(name: str, backbone: str | None, *settings: Mapping[str, Any]) -> Config:
    """The default preset with the variant's own settings, and then those given, later ones last.

    Without a backbone it is that of the preset, which a method without vectors does not look at.
    """
    found = variant(name)
    backbone = only_backbone(name) or (Config.backbone if backbone is None else backbone)
    if backbone not in backbones.names():
        known = ", ".join(backbones.names())
        raise ConfigError(f"unknown backbone {backbone!r}; there are: {known}")
    assignment = wanted_assignment(found.settings)
    config = preset("default", backbone, found.method, assignment=assignment).to_dict()
    for entries in (found.settings, *settings):
        config = merged(config, entries)
    return Config.from_dict(config)


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``{"train.epochs": 3}`` as ``{"train": {"epochs": 3}}``."""
    result: dict[str, Any] = {}
    for path, value in settings.items():
        *folders, name = path.split(".")
        entries = result
        for folder in folders:
            entries = entries.setdefault(folder, {})
        entries[name] = value
    return result


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of both; where both have one, that of the second, nested ones likewise."""
    result = dict(first)
    for name, value in second.items():
        mine = result.get(name)
        if isinstance(mine, dict) and isinstance(value, Mapping):
            value = merged(mine, value)
        result[name] = value
    return result
