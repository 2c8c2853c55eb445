"""`cerp report`: runs of the same data on one page to send around."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cerp.cli.options import AsJson, Seed, load_splits
from cerp.cli.output import print_json, print_note
from cerp.files import write_bytes
from cerp.report.findings import Findings, find
from cerp.report.page import page
from cerp.report.runs import read_runs
from cerp.report.sentences import what_is_not_shown, what_is_shown

DEFAULT_OUTPUT = Path("report.html")


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            show_default=False,
            help="Folders of finished runs, all of the same data.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The HTML file to write.")
    ] = DEFAULT_OUTPUT,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            help="What the runs were trained on: adds popularity, intervals, and recall by tenths "
            "of the catalogue. A data set by name, a split folder, or a file that is split at "
            "random.",
        ),
    ] = None,
    seed: Seed = 0,
    title: Annotated[str, typer.Option(help="Of the page.")] = "Recommenders under a budget",
    as_json: AsJson = False,
) -> None:
    """Write one self-contained page about several runs: accuracy, bytes, curves, settings.

    \b
    Examples:
      cerp report run -o report.html
      cerp report run-cerp run-ud run-full --data my-split -o report.html
    """
    splits = None if data is None else load_splits(data, seed=seed)
    found = find(read_runs(runs), splits)
    # The path of a run need not be UTF-8, but a page must be.
    content = page(found, title, data, seed).encode("utf-8", "replace")
    write_bytes(output, content)
    if as_json:
        print_json({"report": str(output), "bytes": len(content), **_as_json(found)})
        return
    typer.echo(what_is_shown(found))
    for note in what_is_not_shown(found):
        typer.echo(f"- {note}")
    print_note("saved", f"{output} ({len(content):,} bytes)")


def _as_json(found: Findings) -> dict[str, Any]:
    return {
        "fingerprint": found.runs[0].result["fingerprint"],
        "best": found.best and found.best.label,
        "shown": what_is_shown(found),
        "not_shown": what_is_not_shown(found),
        "models": {model.label: model.summary for model in found.models},
    }
