"""`cerp recommend`: lists from a model file, for one user, for a taste, or for everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cerp.cli.nightly import Nightly, refuse_nightly, write_nightly
from cerp.cli.options import AsJson
from cerp.cli.output import print_json, print_note, print_table
from cerp.errors import ConfigError
from cerp.runtime import Recommendation, Runtime, load
from cerp.runtime.list_tables import looks_like_a_formula

ITEM_FILE = "column named like an item, else the first"


def recommend(
    model: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="A model file (.cerp).")
    ],
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Recommend for this user.")
    ] = None,
    liked: Annotated[
        list[str] | None,
        typer.Option(help="Recommend for someone new who likes this item; repeatable."),
    ] = None,
    similar: Annotated[
        str | None, typer.Option(help="List the items that are most like this one.")
    ] = None,
    users: Annotated[
        Path | None,
        typer.Option(
            help="Recommend for the users in this CSV or Parquet file, into --output: each user "
            "once, in the order of their first rows. One whom neither the model nor --history "
            "knows is an error, before any list is made."
        ),
    ] = None,
    all_users: Annotated[
        bool,
        typer.Option(
            "--all-users",
            help="Recommend for every user of the model, and everybody in --history, into "
            "--output.",
        ),
    ] = False,
    skip_unknown: Annotated[
        bool,
        typer.Option(
            "--skip-unknown",
            help="With --users: leave out users who are not known, and say how many.",
        ),
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(
            help="Interactions since training, as 'cerp train' reads them: their users get lists "
            "without these items, also users whom the model does not know."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The table to write, with the columns user, item, rank, score and, where the "
            "model has them, title: .csv, .tsv, .jsonl (each also with .gz), or .parquet.",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Length of a list.")] = 10,
    exclude_seen: Annotated[
        bool,
        typer.Option(
            "--exclude-seen/--include-seen",
            help="Whether to leave out what users have in training, or the liked items.",
        ),
    ] = True,
    unseen_items: Annotated[
        bool,
        typer.Option(
            "--unseen-items",
            help="Lists may hold items that training never saw; their scores were not learned.",
        ),
    ] = False,
    exclude: Annotated[
        Path | None,
        typer.Option(help=f"Leave out the items in this CSV or Parquet file ({ITEM_FILE})."),
    ] = None,
    candidates: Annotated[
        Path | None, typer.Option(help=f"Choose from the items in this file only ({ITEM_FILE}).")
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(help="CSV or Parquet file of items and what is known of each."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="With --items: choose from those for which this holds, in SQL, such as "
            "\"category = 'shoes'\"."
        ),
    ] = None,
    category: Annotated[
        str | None, typer.Option(help="With --items and --most: the column to look at.")
    ] = None,
    most: Annotated[
        int | None, typer.Option(help="At most so many items of a list share their --category.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recommend from a model file, with NumPy alone.

    Give one of --user, --liked, --similar, --users and --all-users. Ids are those of the
    training data. Tables are written as the lists are made, on all cores.

    \b
    Examples:
      cerp recommend model.cerp --user 42
      cerp recommend model.cerp --liked 1193 --liked 661 -k 5 --json
      cerp recommend model.cerp --similar 1193
      cerp recommend model.cerp --all-users -k 50 -o lists.parquet
      cerp recommend model.cerp --users users.csv --history today.csv -o lists.csv.gz
      cerp recommend model.cerp --user 42 --items items.csv --where "category = 'shoes'"
      cerp recommend model.cerp --all-users --items items.csv --category brand --most 2 -o l.csv
    """
    asked = {"--user": user, "--liked": liked, "--similar": similar, "--users": users}
    if sum(given is not None for given in asked.values()) + all_users != 1:
        raise ConfigError(f"give exactly one of {', '.join(asked)} and --all-users")
    is_table = users is not None or all_users
    if is_table != (output is not None):
        raise ConfigError("--users or --all-users and --output belong together: a table of lists")
    if skip_unknown and users is None:
        raise ConfigError("--skip-unknown belongs to --users; leave it out")
    if history is not None and not is_table:
        raise ConfigError("--history belongs to --users and --all-users; leave it out")
    nightly = Nightly(
        *(k, exclude_seen, exclude, candidates, items, where, category, most, history),
        unseen_items=unseen_items,
    )
    if similar is not None and nightly.chooses:
        raise ConfigError("--similar looks at all items; leave the choice of items out")
    if output is not None:
        refuse_nightly(output, users)
    runtime = load(model)
    if output is not None:
        written = write_nightly(runtime, nightly, output, users, skip_unknown=skip_unknown)
        if as_json:
            print_json({"output": str(output), **written._asdict()})
        else:
            for note in written.notes():
                print_note("note", note)
            print_note("saved", f"{written.rows:,} rows to {output}")
        _note_formulas(output, runtime)
    elif similar is not None:
        one = runtime.items.of_kind(similar)
        _report_list(runtime, {"similar": one}, runtime.similar_items(one, k), as_json=as_json)
    elif user is not None:
        known = runtime.users.of_kind(user)
        found = nightly.for_user(runtime, known)
        _report_list(runtime, {"user": known}, found, as_json=as_json)
    else:
        taken = [runtime.items.of_kind(item) for item in liked or ()]
        found = nightly.for_liked(runtime, taken)
        _report_list(runtime, {"liked": taken}, found, as_json=as_json)


def _report_list(
    runtime: Runtime, asked: dict[str, Any], found: list[Recommendation], *, as_json: bool
) -> None:
    columns: dict[str, list[Any]] = {
        "rank": list(range(1, len(found) + 1)),
        "item": [place.item for place in found],
        "score": [place.score for place in found],
    }
    if runtime.titles is not None:
        codes = runtime.items.encode(columns["item"], what="item")
        columns["title"] = [runtime.titles[code] for code in codes]
    if as_json:
        rows = zip(*columns.values(), strict=True)
        places = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({**asked, "recommendations": places})
        return
    # An id is a name, not a quantity: no commas between its thousands.
    columns["item"] = list(map(str, columns["item"]))
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)), prose=("title",))
    if not found:
        print_note(
            "note",
            "no item is left to recommend: all that could be were taken or are left out; widen the "
            "choice, or give --include-seen",
        )


def _note_formulas(output: Path, runtime: Runtime) -> None:
    is_text = {".csv", ".tsv"} & set(output.suffixes)
    if is_text and any(map(looks_like_a_formula, (runtime.users, runtime.items))):
        print_note(
            "note",
            "some ids begin with =, +, - or @ and are written as they are, so that programs find "
            "them again; a spreadsheet would take them for formulas: import the columns as text, "
            "or write a .parquet file",
        )
