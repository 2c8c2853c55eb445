"""What is known of a recipe on a data set: every cell, found or missing, in one JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cerp.comparison.results import Result
from cerp.comparison.statistics import Mark, verdict
from cerp.data.splits import PARTS, Splits
from cerp.errors import DataError
from cerp.files import write_json
from cerp.paper.recipe import RecipeRun
from cerp.sizing.precision_plan import FULL


@dataclass(frozen=True)
class MeasuredCell:
    """A cell that was run."""

    run: RecipeRun
    ordering: str | None
    result: Result
    pattern: dict[str, Any] | None = None
    """Which entries of some vectors are not zero; for heat maps."""

    @property
    def backbone(self) -> str | None:
        """None where it does not matter."""
        return self.result.backbone

    @property
    def budget(self) -> str | None:
        """None where it does not matter."""
        return self.result.budget


NOT_RUN = "not run yet"
"""Why a cell is missing that nobody has tried."""


@dataclass(frozen=True)
class MissingCell:
    """A cell without figures, and why."""

    run: RecipeRun
    ordering: str | None
    backbone: str | None
    budget: str | None
    seed: int
    why: str


@dataclass(frozen=True)
class Interval:
    """How much better CERP is than another run: NDCG@10, paired bootstrap over test users."""

    against: str
    """The other's ``Result.method``."""
    backbone: str
    budget: str
    seeds: tuple[int, int]
    """Of CERP and of the other; each user's mean over them is compared."""
    mean: float
    low: float
    high: float

    @property
    def mark(self) -> Mark:
        """Whether CERP is better, worse, or not clearly different (95%)."""
        return verdict(self.low, self.high)


@dataclass(frozen=True)
class Record:
    """Everything that is shown of a recipe is built from this."""

    recipe: str
    dataset: str
    data: dict[str, Any]
    """Counts and fingerprint."""
    found: list[MeasuredCell] = field(default_factory=list)
    missing: list[MissingCell] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    id_leak: dict[str, Any] | None = None
    """What raw ids give away (`cerp.evaluation.id_leak`), where a run has them."""

    def write(self, path: Path) -> None:
        """As JSON, whole or not at all."""
        values = asdict(self)
        for one in values["found"]:
            if one["result"]["threads"] is None:  # earlier results do not say
                del one["result"]["threads"]
        write_json(path, values)

    @classmethod
    def read(cls, path: Path) -> Record:
        """The inverse of `write`."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            found = [
                MeasuredCell(
                    RecipeRun(**entry["run"]),
                    entry["ordering"],
                    Result(**entry["result"]),
                    entry["pattern"],
                )
                for entry in values.pop("found")
            ]
            missing = [
                MissingCell(**{**entry, "run": RecipeRun(**entry["run"])})
                for entry in values.pop("missing")
            ]
            intervals = [
                Interval(**{**entry, "seeds": tuple(entry["seeds"])})
                for entry in values.pop("intervals")
            ]
            return cls(found=found, missing=missing, intervals=intervals, **values)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} holds no record ({type(error).__name__}: {error}); was it written by "
                "another version of cerp? Move it away, and the same command finds finished runs "
                "again"
            ) from None


def is_in_cell(entry: MeasuredCell | MissingCell, backbone: str, budget: str) -> bool:
    """Whether a run is compared there; what has no backbone or budget of its own is everywhere."""
    return entry.backbone in (backbone, None) and entry.budget in (budget, FULL, None)


def describe(splits: Splits) -> dict[str, Any]:
    """What table 1 has, and the fingerprint."""
    parts: dict[str, int] = {name: len(splits.part(name)) for name in PARTS}
    total = sum(parts.values())
    return {
        "users": splits.num_users,
        "items": splits.num_items,
        "interactions": total,
        "density_pct": 100 * total / (splits.num_users * splits.num_items),
        **parts,
        "fingerprint": splits.fingerprint,
    }
