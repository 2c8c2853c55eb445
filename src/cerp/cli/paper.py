"""`cerp paper`: a table or figure of the paper, run and shown beside the printed one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cerp.cli.options import AsJson, Device, chosen_device, needs_torch
from cerp.cli.output import print_json, print_note
from cerp.data.datasets import load

DEFAULT_DATASET = "gowalla"


def paper(
    recipe: Annotated[
        str,
        typer.Argument(
            help="table1, table2, table2-bytes, table3, other-data, fig-heatmap, fig-gamma, "
            "fig-buckets, fig-threshold, or a recipe file of your own (.toml)."
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
        list[str] | None, typer.Option(help="Run only these, such as cerp,ud; repeatable.")
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
        from cerp.comparison.display import display
        from cerp.comparison.results import Results
        from cerp.comparison.running import refuse_failures, run
        from cerp.paper.json_rows import rows
        from cerp.paper.output import record_path, write_all
        from cerp.paper.planning import plan, restricted
        from cerp.paper.recipe import read_recipe
        from cerp.paper.reproduce import earlier_record, new_record, take_over
    asked = read_recipe(recipe)
    name = dataset or (data.stem if data else DEFAULT_DATASET)
    planned = plan(asked, name, seeds)
    chosen = restricted(
        planned,
        methods=[one for text in methods or [] for one in text.split(",")],
        backbones=backbone or [],
        budgets=budget or [],
    )
    splits = load(data or name)
    earlier = earlier_record(record_path(output, name, asked), splits)
    results = Results(runs / name)
    for folder in merge or []:
        results.merge(Results(folder / name))
    if outdated := take_over(earlier, planned, results):
        print_note("left out", f"{outdated} earlier results of runs with other settings")
    jobs = [one.job for one in chosen]
    failed: dict[str, str] = {}
    if jobs:
        with display(jobs, results) as shown:
            failed = run(
                jobs,
                splits,
                results,
                shown,
                device=chosen_device(device),
                processes=processes,
                time_limit=time_limit,
            )
    record = new_record(asked, name, splits, planned, results, failed, earlier)
    markdown = write_all(asked, record, output)
    if as_json:
        print_json({"rows": rows(asked, record), "missing": len(record.missing)})
    else:
        typer.echo(markdown, nl=False)
        print_note("saved", str(output / name))
    refuse_failures(failed, len(jobs), results)
