"""A table or figure of the paper, from its recipe to the files that show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from cerp.comparison.display import display
from cerp.comparison.results import Results
from cerp.comparison.running import one_at_a_time, run, training_error
from cerp.data.datasets import load
from cerp.pages.tables import TablePage, to_markdown
from cerp.paper.build_record import earlier_record, new_record, take_over
from cerp.paper.json_rows import rows
from cerp.paper.kept_users import keep_users, restore_users
from cerp.paper.output import record_path, write_all
from cerp.paper.planning import Planned, plan, restricted
from cerp.paper.recipe import read_recipe
from cerp.paper.record import Record
from cerp.training.devices import chosen_device

Folder = str | PathLike[str]

DEFAULT_DATASET = "gowalla"
DEFAULT_RUNS, DEFAULT_OUTPUT = "runs/paper", "results"


@dataclass(frozen=True, repr=False)
class Reproduction:
    """A recipe on a data set, as far as it has been run."""

    record: Record
    page: TablePage
    """Its tables, the paper's figures beside ours."""
    rows: list[dict[str, Any]]
    """Its figures, with the keys of the paper's tables."""
    folder: Path
    """Where everything was written."""
    left_out: int
    """Earlier results that do not count, for the settings of their runs have changed since."""
    failed: dict[str, str]
    """Jobs that failed, and why; the same call tries them again."""
    num_jobs: int
    """That this call asked for."""
    runs: Path
    """Where the jobs ran."""

    def to_markdown(self, *, conventions: bool = True) -> str:
        """The tables; ``conventions``: with the paragraph on how figures are computed."""
        return to_markdown(self.page, conventions=conventions)

    def to_json(self) -> dict[str, Any]:
        """As ``cerp paper`` prints it for programs."""
        return {"rows": self.rows, "missing": len(self.record.missing)}

    def raise_failures(self) -> None:
        """A `TrainingError` that names the jobs that failed, if any did."""
        if self.failed:
            raise training_error(self.failed, self.num_jobs, self.runs)

    def __repr__(self) -> str:
        return (
            f"Reproduction({self.record.recipe} on {self.record.dataset}: "
            f"{len(self.record.found)} cells, {len(self.record.missing)} missing)"
        )


def run_recipe(
    recipe: str,
    dataset: str | None = None,
    *,
    data: Folder | None = None,
    methods: Sequence[str] = (),
    backbones: Sequence[str] = (),
    budgets: Sequence[str] = (),
    seeds: int | None = None,
    time_limit: float | None = None,
    processes: int = 1,
    merge: Sequence[Folder] = (),
    runs: Folder = DEFAULT_RUNS,
    output: Folder = DEFAULT_OUTPUT,
    device: str = "auto",
    verbose: bool = True,
    rank: Callable[[Planned], float | None] | None = None,
) -> Reproduction:
    """Run what a recipe lacks, and write its tables and figures beside the printed ones.

    Parameters
    ----------
    recipe
        One of `cerp.paper.recipe.recipe_names`, or a ``.toml`` file.
    dataset
        By name; None: that of ``data``, or Gowalla.
    data
        A folder or file to read, if the name does not tell.
    methods, backbones, budgets
        Run only these, methods in the order in which they are named; empty: all of the recipe.
    seeds
        How often each is trained, in place of the recipe's own number.
    time_limit
        Start no job after so many seconds.
    processes
        Jobs at a time.
    merge
        Folders of ``runs`` of other machines, whose results are taken over.
    runs
        Where jobs run; recipes of one data set share theirs.
    output
        Where tables and figures go: ``output/<dataset>/``.
    device
        ``auto``, ``cpu``, ``cuda``, or one of several such as ``cuda:1``.
    verbose
        Whether to show how it goes, on standard error.
    rank
        What is to come first: the number of a job, the smallest first; None for one leaves it to
        a later call. Without it jobs come as the recipe has them.

    Returns
    -------
    Reproduction
        All cells, with figures or with the reason why there are none.

    """
    asked = read_recipe(recipe)
    name = dataset or (Path(data).stem if data else DEFAULT_DATASET)
    planned = plan(asked, name, seeds)
    chosen = restricted(planned, methods=methods, backbones=backbones, budgets=budgets)
    splits = load(data or name)
    earlier = earlier_record(record_path(Path(output), name, asked), splits)
    place = Path(runs) / name
    with one_at_a_time(place):
        results = Results(place)
        for folder in merge:
            results.merge(Results(Path(folder) / name))
        left_out = take_over(earlier, planned, results)
        restore_users(results, Path(output) / name)
        lacking = {one.job.name: why for one in planned if (why := one.lacks)}
        if rank is not None:
            ranked = [(number, one) for one in chosen if (number := rank(one)) is not None]
            chosen = [one for _, one in sorted(ranked, key=lambda entry: entry[0])]
        jobs = [one.job for one in chosen if one.job.name not in lacking]
        failed: dict[str, str] = {}
        if jobs:
            with display(jobs, results, verbose=verbose) as shown:
                failed = run(
                    jobs,
                    splits,
                    results,
                    shown,
                    device=chosen_device(device),
                    processes=processes,
                    time_limit=time_limit,
                )
        record = new_record(asked, name, splits, planned, results, lacking | failed, earlier)
        page = write_all(asked, record, Path(output))
        if asked.kind == "methods":
            keep_users(record, results, Path(output) / name)
    return Reproduction(
        record,
        page,
        rows(asked, record),
        Path(output) / name,
        left_out,
        failed,
        len(jobs),
        results.folder,
    )
