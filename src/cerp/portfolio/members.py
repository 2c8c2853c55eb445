"""What is tried for a file size: one line for each kind of model, the cheapest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cerp.choices import Mix
from cerp.config import Config
from cerp.errors import ConfigError
from cerp.presets import full_fast_preset, preset, teacher_preset, with_settings


@dataclass(frozen=True)
class Member:
    """One kind of model."""

    name: str
    what: str
    """In a few words, for help and tables."""
    base: Callable[[], Config]
    """Its configuration, whatever the size."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its own, by the names of `cerp.presets.WORDS`, where the caller gives no others."""
    mix: bool | Mix = False
    """Which graph filter is put beside its vectors, if any."""
    starts_from: str | None = None
    """The member whose trained vectors it takes, where that one was tried before."""

    def config(self, max_file_size: str, settings: Mapping[str, Any]) -> Config:
        """Its configuration for a file size, with settings by the names of `cerp.presets.WORDS`."""
        own = {"max_file_size": max_file_size, "mix": self.mix}
        return with_settings(self.base(), (), {**self.settings, **settings, **own})


WITHOUT_SEEN = {"seen": False}
"""What users have seen is the training graph, and takes as many bytes: a model that does not need
it is worth trying for sizes that the graph does not fit into."""

MEMBERS: tuple[Member, ...] = (
    Member(
        "filter",
        "the graph filter, which stores no values",
        partial(preset, "default", method="filter"),
    ),
    Member(
        "sharp-filter",
        "the same, sharpened: better, and several times the work for a list",
        partial(preset, "default", method="sharp-filter"),
    ),
    Member(
        "neighbours",
        "the nearest items of each item, without users",
        partial(preset, "default", method="neighbours"),
    ),
    Member(
        "svd",
        "vectors of items by a scaled SVD, without users",
        partial(preset, "default", method="svd"),
    ),
    Member(
        "svd-mixture",
        "the same in the bytes that the graph leaves, beside the sharpened filter",
        partial(preset, "default", method="svd"),
        mix="sharp",
    ),
    Member(
        "als",
        "vectors of implicit ALS, without a graph",
        partial(preset, "default", method="als"),
        WITHOUT_SEEN,
    ),
    Member(
        "mf",
        "vectors of learned codes, without a graph",
        partial(preset, "default", "mf"),
        WITHOUT_SEEN,
    ),
    Member("lightgcn", "vectors of learned codes on the graph", partial(preset, "default")),
    Member(
        "mixture",
        "those of lightgcn, beside the sharpened filter",
        partial(preset, "default"),
        mix="sharp",
        starts_from="lightgcn",
    ),
    Member(
        "student",
        "mf with codes and preferences of a full-size LightGCN",
        partial(preset, "default", "mf", teacher="lightgcn"),
        WITHOUT_SEEN,
    ),
    Member(
        "full",
        "the whole table of LightGCN in as many bits as fit, beside the sharpened filter",
        partial(teacher_preset, "lightgcn", Config.dim, 0),
        mix="sharp",
    ),
    Member(
        "full-fast",
        "the same, trained at twice the rate, which some data like better",
        partial(full_fast_preset, Config.dim, 0),
        mix="sharp",
    ),
)
"""In the order in which they are tried: by what they cost."""


def members_of(names: Sequence[str] | None) -> list[Member]:
    """The members called so, in the order of `MEMBERS`; all, if none are named."""
    if names is None:
        return list(MEMBERS)
    wanted = [part.strip() for name in names for part in name.split(",")]
    known = [member.name for member in MEMBERS]
    for name in wanted:
        if name not in known:
            raise ConfigError(
                f"there is no {name!r} in the portfolio; choose among {', '.join(known)}"
            )
    return [member for member in MEMBERS if member.name in wanted]
