"""`cerp update`: a model takes in new interactions, users and items."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cerp.artifact import Encoding, encode, read_whole
from cerp.cli.later import Delimiter, Header, ItemColumn, Reading, UserColumn, Where, model_in
from cerp.cli.options import AsJson, Device, chosen_device, needs_torch
from cerp.cli.output import print_json, print_note
from cerp.data.formats.titles import titles_of
from cerp.errors import ConfigError
from cerp.files import make_folder, refuse_unwritable, write_bytes
from cerp.naming import counted
from cerp.runtime.growing import grow

EPOCHS_WITHOUT_GRAPH = 3
"""A graph that has grown moves all vectors by itself: results/update.json."""


def update(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", show_default=False, help="A model file, or the folder of a run."
        ),
    ],
    new: Annotated[
        Path,
        typer.Argument(
            metavar="NEW", show_default=False, help="New interactions, in any format of DATA."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            show_default=False,
            help="The model file to write (.cerp), or a folder for it.",
        ),
    ],
    budget: Annotated[
        str | None, typer.Option(help="Which model of a run.  [default: the last]")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Of training on all that is known then; 0: none, and torch is not needed.  "
            f"[default: 0 for a model with a graph, else {EPOCHS_WITHOUT_GRAPH}]",
        ),
    ] = None,
    titles: Annotated[Path | None, typer.Option(help="Text file of item ids and titles.")] = None,
    user: UserColumn = None,
    item: ItemColumn = None,
    header: Header = None,
    delimiter: Delimiter = None,
    where: Where = None,
    seed: Annotated[int, typer.Option(help="Of the batches.")] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Let new users and items join a model, and train a little further.

    Users and items that were there keep their rows of the codebooks. New ones get the rows
    that come closest to what their neighbours have. No more values are stored than before,
    unless every user and item has a row of its own. An item without interactions cannot
    join: it has no neighbours.

    \b
    Examples:
      cerp update run today.csv -o next
      cerp update model.cerp today.csv --epochs 0 -o next.cerp
    """
    started = time.monotonic()
    source = model_in(model, budget)
    target = _target(output, source)
    file, shipped = read_whole(source)
    reading = Reading(user, item, header, delimiter, where)
    data = reading.rows(new, shipped.users, shipped.items)
    grown = grow(shipped, data)
    found = grown.model
    if titles is not None:
        named = titles_of(found.items, titles)
        known = found.titles or [str(item) for item in found.items.values.tolist()]
        new_titles = [
            named.get(item, title)
            for item, title in zip(found.items.values.tolist(), known, strict=True)
        ]
        found = replace(found, titles=new_titles)
    trained = 0
    if epochs is None:
        epochs = 0 if found.layers or found.filter else EPOCHS_WITHOUT_GRAPH
    if epochs and found.embedding is not None:
        with needs_torch("Training further (--epochs 0 does without)"):
            from cerp.runs.warm import can_be_warm, warmed
        if can_be_warm(found):
            trained = epochs
            found = warmed(
                found, grown.train, epochs=epochs, seed=seed, device=chosen_device(device)
            )
        else:
            print_note("note", "the values of this kind of model are not trained further")
    encoding = Encoding(values=shipped.precision or "fp32")
    payload = encode(found, encoding)
    if target.parent == output:
        make_folder(output)
    write_bytes(target, payload)
    told = {
        "model": str(target),
        "users": len(found.users),
        "items": len(found.items),
        "new_users": grown.new_users,
        "new_items": grown.new_items,
        "new_interactions": grown.new_interactions,
        "repeated_interactions": grown.repeated,
        "epochs": trained,
        "bytes": len(payload),
        "bytes_before": len(file),
        "seconds": round(time.monotonic() - started, 2),
    }
    if as_json:
        print_json(told)
        return
    typer.echo(
        f"{counted(grown.new_interactions, 'new interaction')} ({grown.repeated:,} known before), "
        f"{counted(grown.new_users, 'new user')}, {counted(grown.new_items, 'new item')}; "
        f"{len(file):,} -> {len(payload):,} bytes"
    )
    print_note("saved", str(target))


def _target(output: Path, source: Path) -> Path:
    """The file to write: the one named, or one in a folder that may be new."""
    if output.suffix == ".cerp":
        refuse_unwritable(output)
        return output
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output} is a file; name a folder, or a file that ends in .cerp")
    return output / source.name
