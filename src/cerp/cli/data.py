"""`cerp data`: look at a data set, split it, fetch a public one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cerp.cli.options import AsJson, reads_data
from cerp.cli.output import print_json, print_note, print_table
from cerp.cli.rows import merged_rows, note_merged
from cerp.data import datasets
from cerp.data.source_facts import is_index, times_in_words
from cerp.data.splits import PARTS, Splits
from cerp.evaluation.id_leak import LeakReport, id_leak
from cerp.terminal import printable

app = typer.Typer(
    help="Look at data, split it, fetch public data sets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
@reads_data
def info(
    splits: Splits,
    seed: int,
    leak_check: Annotated[
        bool, typer.Option(help="Measure whether the numbering of ids gives test data away.")
    ] = True,
    judge_users: Annotated[
        int | None,
        typer.Option(
            help="Judge a sample of so many users.  [default: all, or a sample where users times "
            "items are more than 2 billion]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What was read, sizes, and whether the numbering of ids gives test interactions away.

    The id check ranks by nothing but nearby ids, with no training, once as the
    ids are numbered ('native') and once shuffled. Where native is clearly better,
    a model that uses the numbering is credited for reading it.

    \b
    Examples:
      cerp data info synthetic
      cerp data info ratings.csv --min-rating 4 --k-core 5
      cerp data info log.tsv --user visitor --item product --protocol time --json
    """
    if not as_json:
        _print_sizes(splits)  # before what takes longer
        _print_read(splits)
    leak = None
    if leak_check and len(splits.test):
        leak = id_leak(splits, seed=seed, judge_users=judge_users, quiet=False)
    if as_json:
        found = {"id_leak": leak.summary()} if leak else {}
        print_json({**splits.meta(), "fingerprint": splits.fingerprint, **_read(splits), **found})
    elif leak:
        _print_leak(leak)
    elif leak_check:
        print_note("note", "the test part is empty: nothing that ids could give away")


@app.command()
@reads_data
def split(
    splits: Splits,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder to create.", show_default=False)
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a split that is in the folder.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Cut data into train, valid and test, and save them as a folder.

    The folder holds three arrays of pairs (NumPy's .npy), the original ids, and
    meta.json with counts and fingerprints that are checked on every use.

    \b
    Examples:
      cerp data split ratings.csv -o my-split
      cerp data split ratings.csv --protocol leave-last-out -o last-out
      cerp data split ml-100k --min-rating 4 --seed 3 -o ml-100k-split
    """
    splits.save(output, overwrite=overwrite)
    note_merged(splits)
    if as_json:
        print_json({**splits.meta(), "folder": str(output)})
    else:
        typer.echo(printable(f"{splits}\nsaved to {output}"))


@app.command()
def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="gowalla or yelp2020.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download public data sets, verify them, and keep them; without a name, list what is here.

    They go to $CERP_DATA_DIR, or to cerp's folder in your cache. A download that
    broke off goes on where it stopped.

    \b
    Examples:
      cerp data fetch
      cerp data fetch gowalla
    """
    found = {name: str(datasets.fetch(name)) for name in names} if names else datasets.available()
    if as_json:
        print_json(found)
    else:
        print_table(("data set", "where"), list(found.items()))


def _print_sizes(splits: Splits) -> None:
    total = sum(len(splits.part(name)) for name in PARTS)
    print_table(
        ("", "count"),
        [
            ("users", splits.num_users),
            ("items", splits.num_items),
            ("interactions", total),
            *((f"  {name}", len(splits.part(name))) for name in PARTS),
            ("density", f"{total / (splits.num_users * splits.num_items):.3%}"),
        ],
    )
    how = ", ".join(f"{key} {value}" for key, value in splits.protocol.items() if key != "name")
    name = splits.protocol["name"]
    typer.echo(f"\nsplit        {f'{name} ({how})' if how else name}")
    typer.echo(f"fingerprint  {splits.fingerprint}")


def _read(splits: Splits) -> dict[str, Any]:
    """What came out of the source, for programs."""
    whole, source = splits.train, splits.train.source
    found: dict[str, Any] = {
        "titles": len(splits.titles),
        "users_without_training": int((np.diff(whole.user_offsets) == 0).sum()),
        "items_without_training": int((whole.item_counts == 0).sum()),
    }
    if source is not None:
        found["read"] = {**asdict(source), "merged": merged_rows(splits)}
    return found


def _print_read(splits: Splits) -> None:
    source, told = splits.train.source, _read(splits)
    lines: list[tuple[str, str]] = []
    if source is not None:
        lines.append(
            (
                "rows",
                f"{source.rows:,}, {source.left_out:,} left out, "
                f"{told['read']['merged']:,} repeat a pair or fall out by --k-core",
            )
        )
        chosen = ", ".join(f"{role} = {name}" for role, name in source.columns.items())
        by = {True: "line 1 names them", False: "by position, there is no header"}
        how = f" ({by[source.has_header]})" if source.has_header is not None else ""
        lines.append(("columns", f"{chosen or 'those of the format'}{how}"))
        if source.ignored:
            names = (
                f"{name!r} (an index)" if is_index(name) else str(name) for name in source.ignored
            )
            lines.append(("not read", ", ".join(names)))
    times = [part.time for part in map(splits.part, PARTS) if part.time is not None]
    if times:
        lines.append(("times", times_in_words(np.concatenate(times))))
    if splits.train.weight is not None:
        weights = np.concatenate([splits.part(name).weight for name in PARTS])
        lines.append(
            ("weights", f"{weights.min():g} to {weights.max():g}, mean {weights.mean():g}")
        )
    lines.append(("titles", f"{told['titles']:,} of {splits.num_items:,} items"))
    lines += [
        (f"untrained {side}", f"{count:,} have no interaction in train")
        for side in ("users", "items")
        if (count := told[f"{side}_without_training"])
    ]
    typer.echo()
    width = max(len(label) for label, _ in lines)
    for label, text in lines:
        typer.echo(printable(f"{label:<{width}}  {text}"))
    for warning in source.warnings if source is not None else ():
        print_note("warning", warning)


def _print_leak(leak: LeakReport) -> None:
    typer.echo(f"\nNDCG@10 on {leak.on} of ranking by nearby ids alone, no training:")
    if leak.users < leak.users_with_truth:
        typer.echo(f"(a sample of {leak.users:,} of {leak.users_with_truth:,} users)")
    sides = (("item window", leak.item_window), ("user window", leak.user_window))
    print_table(
        (f"±{leak.window} ids", "native", "shuffled"),
        [(name, side.native, side.shuffled) for name, side in sides],
    )
    for warning in leak.warnings:
        print_note("warning", warning)
    if not leak.warnings:
        typer.echo("Native ids are not clearly more than twice as good as shuffled ones.")
