"""`cerp compare`: many methods at the same budgets, side by side."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cerp.cli.options import (
    AsJson,
    Device,
    chosen_device,
    needs_torch,
    question_small_counts,
    reads_data,
)
from cerp.cli.output import print_json, print_note
from cerp.data.splits import Splits

DEFAULT_BUDGETS = ["99%"]
DEFAULT_BACKBONES = ["lightgcn"]


@reads_data
def compare(
    splits: Splits,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the comparison.", show_default=False)
    ],
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help="all, or names such as cerp,ud,popularity; repeatable.  "
            "[default: all; with --merge none]"
        ),
    ] = None,
    budget: Annotated[
        list[str],
        typer.Option(
            help="Pruned share of the full table, a count of values, or bytes of the embedding "
            "such as 400KB; repeatable."
        ),
    ] = DEFAULT_BUDGETS,
    backbone: Annotated[
        list[str], typer.Option(help="lightgcn, mlp or mf; repeatable.")
    ] = DEFAULT_BACKBONES,
    seeds: Annotated[
        int,
        typer.Option(
            help="How often each is trained: with seeds 0, 1, ..., on the one split of --seed."
        ),
    ] = 1,
    settings: Annotated[
        list[Path] | None,
        typer.Option(help="A best.json of 'cerp tune', used for its method; repeatable."),
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(help="Take over the results in this folder; repeatable."),
    ] = None,
    processes: Annotated[
        int, typer.Option(help="Jobs at a time; they may share a GPU, where its memory allows.")
    ] = 1,
    dim: Annotated[int | None, typer.Option(help="Dimension of the vectors.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Training epochs at most.")] = None,
    prune_epochs: Annotated[
        int | None, typer.Option(help="In how many epochs to reach the tightest budget.")
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train methods at the same budgets and show them side by side.

    The same command goes on where a killed one was, and trains only what is
    missing: budgets, methods and seeds may be added. Results are kept in
    results.jsonl, table.md and table.html. A method that cannot meet a budget is
    listed with its reason.

    \b
    Examples:
      cerp compare synthetic --methods popularity,ud,cerp --dim 64 -o compared
      cerp compare gowalla --budget 90% --budget 95% --budget 99% --seeds 3 -o compared
      cerp compare gowalla --methods cerp --methods ud --budget 200KB --backbone mlp -o bytes
      cerp compare gowalla --settings tuned/best.json --processes 4 --device cuda -o compared
      cerp compare gowalla --merge machine-1 --merge machine-2 -o merged
    """
    question_small_counts(budget)
    with needs_torch("Comparing"):
        from cerp.comparison.display import display
        from cerp.comparison.jobs import plan
        from cerp.comparison.rendering import to_html, to_markdown
        from cerp.comparison.results import Results
        from cerp.comparison.running import refuse_failures, run
        from cerp.comparison.tables import report
        from cerp.comparison.variants import chosen_names, nested, read_tuned
        from cerp.files import write_text
    given = {"dim": dim, "train.epochs": epochs, "prune.epochs": prune_epochs}
    tuned = {
        (found.method, found.backbone): found.settings for found in map(read_tuned, settings or [])
    }
    jobs = plan(
        chosen_names(methods or ([] if merge else ["all"])),
        backbone,
        budget,
        seeds,
        settings=nested({name: value for name, value in given.items() if value is not None}),
        tuned=tuned,
    )
    results = Results(output)
    for folder in merge or []:
        results.merge(Results(folder))
    with display(jobs, results) as shown:
        failed = run(
            jobs, splits, results, shown, device=chosen_device(device), processes=processes
        )
    tables = report(results)
    markdown = to_markdown(tables)
    write_text(output / "table.md", markdown)
    write_text(output / "table.html", to_html(tables))
    if as_json:
        print_json({"results": [asdict(result) for result in results.all], "failed": failed})
    else:
        typer.echo(markdown, nl=False)
        print_note("saved", f"{output / 'table.md'}, {output / 'table.html'}")
    refuse_failures(failed, len(jobs), results)
