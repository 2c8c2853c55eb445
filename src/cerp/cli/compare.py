"""`cerp compare`: many methods at the same budgets, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cerp.cli.conventions import Conventions, print_conventions
from cerp.cli.options import (
    AsJson,
    Device,
    needs_torch,
    reads_data,
    refuse_unclear_budgets,
)
from cerp.cli.output import print_json, print_note
from cerp.data.splits import Splits
from cerp.models import BACKBONES
from cerp.terminal import printable

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
        list[str] | None,
        typer.Option(
            help="Pruned share of the full table, a count of values, or bytes of the embedding "
            "such as 400KB; repeatable.  [default: 99%, or what --max-file-size allows]"
        ),
    ] = None,
    max_file_size: Annotated[
        str | None, typer.Option(help="Of every model file, such as 300KB.")
    ] = None,
    backbone: Annotated[
        list[str], typer.Option(help=f"{', '.join(BACKBONES)}; repeatable.")
    ] = DEFAULT_BACKBONES,
    seeds: Annotated[
        int,
        typer.Option(
            help="How often each is trained: with seeds 0, 10, 20, ..., on the one split of --seed."
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
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also print counts of values and dimensions.")
    ] = False,
    conventions: Conventions = False,
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
      cerp compare gowalla --methods cerp,filter,popularity --max-file-size 2MB -o sized
      cerp compare gowalla --settings tuned/best.json --processes 4 --device cuda -o compared
      cerp compare gowalla --merge machine-1 --merge machine-2 -o merged
    """
    refuse_unclear_budgets(budget or [])
    with needs_torch("Comparing"):
        from cerp.comparison.compare import TABLE_FILES
        from cerp.comparison.compare import compare as run_comparison
    found = run_comparison(
        splits,
        methods,
        output=output,
        budgets=budget or None,
        max_file_size=max_file_size,
        backbones=backbone,
        seeds=seeds,
        settings=settings or [],
        merge=merge or [],
        processes=processes,
        dim=dim,
        epochs=epochs,
        prune_epochs=prune_epochs,
        device=device,
    )
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(printable(found.to_markdown(verbose=verbose, conventions=False)), nl=False)
        print_conventions(whole=conventions)
        print_note("saved", ", ".join(str(output / name) for name in TABLE_FILES))
    found.raise_failures()
