"""`cerp.report`: write the page about several runs, and say what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from cerp.data.datasets import load
from cerp.data.splits import Splits
from cerp.files import write_bytes
from cerp.reports.findings import find
from cerp.reports.finished_runs import read_runs
from cerp.reports.page import page
from cerp.reports.sentences import what_is_not_shown, what_is_shown
from cerp.runs.facts import ModelFacts
from cerp.runs.kept_split import kept_split

Folder = str | PathLike[str]

DEFAULT_OUTPUT = "report.html"
DEFAULT_TITLE = "Recommenders under a budget"


@dataclass(frozen=True)
class Report:
    """What `report` wrote, in words and figures."""

    path: Path
    """The HTML file."""
    bytes: int
    """Its size."""
    fingerprint: str
    """Of the data that the runs were trained on."""
    best: str | None
    """Label of the compact model that is best on validation; None if all are full size."""
    shown: str
    """What the figures show, in plain sentences."""
    not_shown: list[str]
    """What a reader might take from them, and may not."""
    models: dict[str, ModelFacts]
    """The figures of every model, by label."""

    def to_json(self) -> dict[str, Any]:
        """As ``cerp report`` prints it for programs."""
        return {
            "report": str(self.path),
            "bytes": self.bytes,
            "fingerprint": self.fingerprint,
            "best": self.best,
            "shown": self.shown,
            "not_shown": self.not_shown,
            "models": {label: facts.to_json() for label, facts in self.models.items()},
        }

    def __repr__(self) -> str:
        return f"Report({str(self.path)!r}, {len(self.models)} models, best: {self.best})"


def report(
    runs: Folder | Sequence[Folder],
    output: Folder = DEFAULT_OUTPUT,
    data: Splits | str | Path | None = None,
    *,
    seed: int = 0,
    title: str = DEFAULT_TITLE,
) -> Report:
    """Write one self-contained HTML page about several runs: accuracy, bytes, curves, settings.

    Parameters
    ----------
    runs
        Folders of finished runs, all of the same data.
    output
        The HTML file to write.
    data
        What the runs were trained on: splits, or what `cerp.load_splits` takes. Adds popularity,
        intervals, and recall by tenths of the catalogue. Without it, the split that the first
        run keeps.
    seed
        Of the split, where ``data`` is a file that is split at random.
    title
        Of the page.

    Returns
    -------
    Report
        Where the page is, and what it shows.

    Examples
    --------
    >>> cerp.report(["run-cerp", "run-full"], "report.html", data=splits)  # doctest: +SKIP

    """
    folders = [Path(one) for one in ([runs] if isinstance(runs, str | PathLike) else runs)]
    splits = load(data, seed=seed) if isinstance(data, str | Path) else data
    splits = splits or next(filter(None, map(kept_split, folders)), None)
    found = find(read_runs(folders), splits)
    named = None if data is None or isinstance(data, Splits) else str(data)
    # The path of a run need not be UTF-8, but a page must be.
    content = page(found, title, named, seed).encode("utf-8", "replace")
    path = Path(output)
    write_bytes(path, content)
    return Report(
        path,
        len(content),
        found.runs[0].origin.fingerprint,
        None if found.best is None else found.best.label,
        what_is_shown(found),
        what_is_not_shown(found),
        {model.label: model.facts for model in found.models},
    )
