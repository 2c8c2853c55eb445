"""`cerp.compare`: many methods at the same budgets, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from cerp.comparison.display import display
from cerp.comparison.jobs import plan
from cerp.comparison.metrics import MAIN_METRIC
from cerp.comparison.results import Result, Results
from cerp.comparison.running import one_at_a_time, run, training_error
from cerp.comparison.tables import comparison_page
from cerp.comparison.tuned import BestSettings, read_tuned
from cerp.comparison.variants import ALL, chosen_names, nested
from cerp.data.splits import Splits
from cerp.files import write_text
from cerp.pages.tables import TablePage, to_html, to_markdown
from cerp.training.devices import chosen_device

Folder = str | PathLike[str]

TABLE_FILES = ("table.md", "table.html")
DEFAULT_BUDGETS = ("99%",)
DEFAULT_BACKBONES = ("lightgcn",)


@dataclass(frozen=True, repr=False)
class Comparison:
    """What a comparison has found, this call's and earlier ones'."""

    folder: Path
    """Where everything is: ``results.jsonl``, ``table.md``, ``table.html``."""
    results: list[Result]
    """One for each method, backbone, budget and seed."""
    failed: dict[str, str]
    """Jobs that failed, and why; the same call tries them again."""
    num_jobs: int
    """That this call asked for."""

    @property
    def tables(self) -> TablePage:
        """Methods by falling accuracy, a table for each backbone and budget."""
        return comparison_page(Results(self.folder))

    def to_markdown(self, *, verbose: bool = True, conventions: bool = True) -> str:
        """The tables as Markdown.

        Parameters
        ----------
        verbose
            With the counts that papers compare methods by.
        conventions
            With the paragraph on how figures are computed.

        """
        page = comparison_page(Results(self.folder), verbose=verbose)
        return to_markdown(page, conventions=conventions)

    def to_json(self) -> dict[str, Any]:
        """As ``cerp compare`` prints it for programs."""
        return {"results": [asdict(result) for result in self.results], "failed": self.failed}

    def raise_failures(self) -> None:
        """A `TrainingError` that names the jobs that failed, if any did."""
        if self.failed:
            raise training_error(self.failed, self.num_jobs, self.folder)

    def __repr__(self) -> str:
        judged = [result for result in self.results if result.score(MAIN_METRIC) is not None]
        lines = [f"Comparison({str(self.folder)!r}, {len(self.results)} results)"]
        if judged:
            best = max(judged, key=lambda result: result.score(MAIN_METRIC) or 0.0)
            lines.append(f"  best: {best.cell.name}, {MAIN_METRIC} {best.score(MAIN_METRIC):.4f}")
        if refused := sum(result.error is not None for result in self.results):
            lines.append(f"  {refused} refused: the tables say why")
        lines += [f"  failed: {name}: {why}" for name, why in list(self.failed.items())[:3]]
        return "\n".join(lines)


def compare(
    splits: Splits,
    methods: str | Sequence[str] | None = None,
    *,
    output: Folder,
    budgets: str | int | Sequence[str | int] | None = None,
    max_file_size: str | None = None,
    backbones: str | Sequence[str] = DEFAULT_BACKBONES,
    seeds: int = 1,
    settings: Sequence[Folder | BestSettings] = (),
    merge: Sequence[Folder] = (),
    processes: int = 1,
    dim: int | None = None,
    epochs: int | None = None,
    prune_epochs: int | None = None,
    device: str = "auto",
    verbose: bool = True,
) -> Comparison:
    """Train methods at the same budgets and show them side by side.

    The same call goes on where an interrupted one was, and trains only what is
    missing: budgets, methods and seeds may be added. Each job is a process of its own.

    Parameters
    ----------
    splits
        The data, split once for all.
    methods
        Names such as ``["cerp", "ud", "popularity"]``, or ``"all"``, the default; with
        ``merge``, the default is none.
    output
        Folder of the comparison.
    budgets
        Pruned shares of the full table, counts of values, or bytes of the embedding; ``"99%"``
        by default, or what ``max_file_size`` has room for.
    max_file_size
        Of every model file, such as ``"300KB"``, in the precision that validates best.
    backbones
        By name, such as ``["lightgcn", "mlp"]``.
    seeds
        How often each is trained: with seeds 0, 10, 20, ..., so far apart that no two runs draw
        the same batches in any of their stages.
    settings
        What `cerp.tune` found, or its ``best.json``; used for its method and backbone.
    merge
        Folders of other comparisons, whose results are taken over.
    processes
        Jobs at a time.
    dim, epochs, prune_epochs
        In place of the default preset's, for all methods.
    device
        ``auto``, ``cpu``, ``cuda``, or one of several such as ``cuda:1``.
    verbose
        Whether to show how it goes, on standard error.

    Returns
    -------
    Comparison
        The results and their tables. Jobs that failed are listed in it; a method that
        cannot meet a budget has a result with the reason.

    """
    place = Path(output)
    given = {
        "dim": dim,
        "train.epochs": epochs,
        "prune.epochs": prune_epochs,
        "max_file_size": max_file_size,
    }
    found = [one if isinstance(one, BestSettings) else read_tuned(one) for one in settings]
    jobs = plan(
        chosen_names(_listed(methods) if methods else [] if merge else [ALL]),
        _listed(backbones),
        _listed(budgets or max_file_size or DEFAULT_BUDGETS),
        seeds,
        settings=nested({name: value for name, value in given.items() if value is not None}),
        tuned={(one.method, one.backbone): one.settings for one in found},
    )
    chosen = chosen_device(device)
    with one_at_a_time(place):
        results = Results(place)
        for folder in merge:
            results.merge(Results(Path(folder)))
        with display(jobs, results, verbose=verbose) as shown:
            failed = run(jobs, splits, results, shown, device=chosen, processes=processes)
        page = comparison_page(results)
        for name, text in zip(TABLE_FILES, (to_markdown(page), to_html(page)), strict=True):
            write_text(place / name, text)
    return Comparison(place, results.all, failed, len(jobs))


def _listed(given: str | int | Sequence[str | int]) -> list[str]:
    """One name or several."""
    return [str(given)] if isinstance(given, str | int) else [str(one) for one in given]
