"""`cerp report`: runs of the same data on one page to send around."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cerp.cli.options import AsJson, Seed
from cerp.cli.output import print_json, print_note
from cerp.reports.write import DEFAULT_OUTPUT, DEFAULT_TITLE
from cerp.reports.write import report as write_report
from cerp.terminal import printable


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            show_default=False,
            help="Folders of finished runs, all of the same data.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path(
        DEFAULT_OUTPUT
    ),
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            help="What the runs were trained on: adds popularity, intervals, and recall by tenths "
            "of the catalogue. A data set by name, a split folder, or a file that is split at "
            "random.  [default: the split that the first run keeps]",
        ),
    ] = None,
    seed: Seed = 0,
    title: Annotated[str, typer.Option(help="Of the page.")] = DEFAULT_TITLE,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained page about several runs: accuracy, bytes, curves, settings.

    \b
    Examples:
      cerp report run -o report.html
      cerp report run-cerp run-ud run-full --data my-split -o report.html
    """
    made = write_report(runs, output, data, seed=seed, title=title)
    if as_json:
        print_json(made.to_json())
        return
    typer.echo(printable(made.shown))
    for note in made.not_shown:
        typer.echo(printable(f"- {note}"))
    print_note("saved", f"{made.path} ({made.bytes:,} bytes)")
