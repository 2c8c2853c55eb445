"""results/campaigns.json: what all runs of each campaign have found so far."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from cerp._version import __version__


class Record:
    """The runs of one campaign in the file of all.

    Every run is kept with its seed and its figures; their cases and failures are summed up. A run
    that failed is told of for good, so the cases since then are counted too.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The oldest first."""
        runs: list[dict[str, Any]] = self._all().get(self.name, {}).get("runs", [])
        return runs

    @property
    def next_seed(self) -> int:
        """One that no run has had."""
        return max((run["seed"] for run in self.runs), default=0) + 1

    def add(self, found: dict[str, Any]) -> None:
        """Keep one more run; the file may have changed since the last look at it."""
        machine = {
            "python": platform.python_version(),
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
        }
        runs = [*self.runs, found | {"machine": machine, "version": __version__}]
        summed = {key: round(sum(run[key] for run in runs)) for key in ("cases", "failures")}
        clean = runs[_place_of_last_failure(runs) + 1 :]
        merged = self._all() | {
            self.name: summed
            | {"cases_since_a_failure": sum(run["cases"] for run in clean), "runs": runs}
        }
        text = json.dumps(merged, indent=1, sort_keys=True)
        self.path.write_text(text + "\n", encoding="utf-8")

    def _all(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return found


def _place_of_last_failure(runs: list[dict[str, Any]]) -> int:
    return max((place for place, run in enumerate(runs) if run["failures"]), default=-1)
