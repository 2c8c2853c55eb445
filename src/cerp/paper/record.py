"""What is known of a recipe on a data set: every cell, found or missing, in one JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cerp.comparison.results import Result
from cerp.comparison.statistics import ENOUGH_SEEDS, Mark, corrected
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
    test_readings: int | None = None
    """How often this row's test part was seen up to this result, this reading included: once, and
    once more for each result of the row with other settings that came before. None: measured by
    an earlier version, which did not count."""

    @property
    def backbone(self) -> str | None:
        """None where it does not matter."""
        return self.result.backbone

    @property
    def budget(self) -> str | None:
        """None where it does not matter."""
        return self.result.budget


LATER = ("threads", "best_epoch", "ndcg20", "recall20", "tail_ndcg10", "coverage10", "judging")
"""Entries of a result that those of earlier versions do not have."""
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
    """How much better CERP is than another run: NDCG@10, bootstrap over test users and seeds."""

    against: str
    """The other's ``Result.method``."""
    backbone: str
    budget: str
    seeds: tuple[int, int]
    """Of CERP and of the other."""
    mean: float
    low: float
    high: float
    """The 95% interval by itself."""
    p_value: float | None = None
    """Before Holm's correction; None in records of earlier versions, which drew users alone."""

    @property
    def is_older(self) -> bool:
        """Whether it is of an earlier version, as the results then were."""
        return self.p_value is None


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

    def marks(self, backbone: str, budget: str) -> dict[str, Mark]:
        """What is said of CERP in one cell, by the other's ``Result.method``.

        Better and worse are those after Holm's correction over the whole record.
        """
        same_anyway = {entry.result.method for entry in self.found if not entry.result.is_random}
        enough = [
            min(one.seeds[0], ENOUGH_SEEDS if one.against in same_anyway else one.seeds[1])
            >= ENOUGH_SEEDS
            for one in self.intervals
        ]
        holding = corrected(
            {
                place: (one.mean, one.p_value)
                for place, one in enumerate(self.intervals)
                if enough[place] and one.p_value is not None
            }
        )
        return {
            one.against: holding.get(place, "users only" if enough[place] else "too few seeds")
            for place, one in enumerate(self.intervals)
            if (one.backbone, one.budget) == (backbone, budget)
        }

    def write(self, path: Path) -> None:
        """As JSON, whole or not at all."""
        values = asdict(self)
        for one in values["found"]:
            for name in LATER:  # earlier results do not say
                if one["result"][name] is None:
                    del one["result"][name]
            if one["test_readings"] is None:
                del one["test_readings"]
        for one in values["intervals"]:
            if one["p_value"] is None:
                del one["p_value"]
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
                    entry.get("test_readings"),
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
