"""`cerp paper`: a table or figure of the paper, run and shown beside the printed one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cerp.cli.conventions import Conventions, print_conventions
from cerp.cli.options import AsJson, Device, needs_torch
from cerp.cli.output import print_json, print_note
from cerp.terminal import printable


def paper(
    recipe: Annotated[
        str,
        typer.Argument(
            help="table1, table2, table2-bytes, table3, other-data, leaderboard, fig-heatmap, "
            "fig-gamma, fig-buckets, fig-threshold, or a recipe file of your own (.toml)."
        ),
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            help="gowalla, yelp2020, ml-1m, lastfm, amazon-beauty, synthetic, or any other that "
            "is in the data folder.  [default: gowalla, or the name of --data]"
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A folder or file to read, if the name does not tell.")
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(help="Run only these, in this order, such as cerp,ud; repeatable."),
    ] = None,
    backbone: Annotated[
        list[str] | None, typer.Option(help="Run only with these; repeatable.")
    ] = None,
    budget: Annotated[
        list[str] | None, typer.Option(help="Run only under these; repeatable.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How often each is trained, in place of the recipe's.")
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Start no job after so many seconds; a later call goes on."),
    ] = None,
    processes: Annotated[
        int, typer.Option(help="Jobs at a time; they may share a GPU, where its memory allows.")
    ] = 1,
    merge: Annotated[
        list[Path] | None,
        typer.Option(help="Take over the runs in this folder of another machine; repeatable."),
    ] = None,
    runs: Annotated[
        Path, typer.Option(help="Where jobs run; recipes of one data set share theirs.")
    ] = Path("runs/paper"),
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where tables and figures go.")
    ] = Path("results"),
    device: Device = "auto",
    conventions: Conventions = False,
    as_json: AsJson = False,
) -> None:
    """Run a table or figure of the paper, and show it beside the printed one.

    The same command goes on where a killed one was, and trains only what is
    missing. OUTPUT/DATASET/ gets rows as JSON, the record of all runs, Markdown,
    a page, and figures; cells that have not been run are listed as missing.

    \b
    Examples:
      cerp paper table1
      cerp paper table2 --methods cerp,ud,qr,pep,full --backbone lightgcn --device cuda
      cerp paper table3 --time-limit 1500 --processes 3
      cerp paper other-data --dataset ml-1m
    """
    with needs_torch("Reproducing the paper"):
        from cerp.paper.run import run_recipe
    found = run_recipe(
        recipe,
        dataset,
        data=data,
        methods=[one for text in methods or [] for one in text.split(",")],
        backbones=backbone or [],
        budgets=budget or [],
        seeds=seeds,
        time_limit=time_limit,
        processes=processes,
        merge=merge or [],
        runs=runs,
        output=output,
        device=device,
    )
    if found.left_out:
        print_note("left out", f"{found.left_out} earlier results of runs with other settings")
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(printable(found.to_markdown(conventions=False)), nl=False)
        if found.record.found:
            print_conventions(whole=conventions)
        print_note("saved", str(found.folder))
    found.raise_failures()
