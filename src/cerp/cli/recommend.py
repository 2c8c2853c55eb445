"""`cerp recommend`: lists from a model file, for one user, for a taste, or for a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cerp.cli.options import AsJson
from cerp.cli.output import print_json, print_note, print_table
from cerp.errors import ConfigError
from cerp.runtime import Recommendation, Runtime, load
from cerp.runtime.list_tables import (
    looks_like_a_formula,
    read_users,
    refuse_output,
    refuse_unknown,
    write_lists,
)


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
    users: Annotated[
        Path | None,
        typer.Option(
            help="Recommend for the users in this CSV or Parquet file, into --output: each user "
            "once, in the order of their first rows. One whom the model does not know is an "
            "error, before any list is made."
        ),
    ] = None,
    skip_unknown: Annotated[
        bool,
        typer.Option(
            "--skip-unknown",
            help="With --users: leave out users whom the model does not know, and say how many.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="CSV or Parquet file with the columns user, item, rank, score; another than "
            "--users.",
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
    as_json: AsJson = False,
) -> None:
    """Recommend from a model file, with NumPy alone.

    Give one of --user, --liked and --users. Ids are those of the training data.

    \b
    Examples:
      cerp recommend model.cerp --user 42
      cerp recommend model.cerp --liked 1193 --liked 661 -k 5 --json
      cerp recommend model.cerp --users users.csv --output lists.parquet
    """
    if sum(given is not None for given in (user, liked, users)) != 1:
        raise ConfigError("give exactly one of --user, --liked and --users")
    if (users is None) != (output is None):
        raise ConfigError("--users and --output belong together: lists for a table are a table")
    if skip_unknown and users is None:
        raise ConfigError("--skip-unknown belongs to --users; leave it out")
    runtime = load(model)
    options: dict[str, Any] = {"exclude_seen": exclude_seen, "unseen_items": unseen_items}
    if users is not None and output is not None:
        runtime.refuse_without_users()
        refuse_output(output, users)
        table = read_users(users, runtime.users)
        if not skip_unknown:
            refuse_unknown(table, users, runtime.users)
        count = write_lists(
            output,
            runtime,
            table.known,
            lambda chunk: runtime.recommend_many(chunk, k, **options),
        )
        _report_table(output, count, len(table.unknown), as_json=as_json)
        _note_formulas(output, runtime)
    elif user is not None:
        known = runtime.users.of_kind(user)
        found = runtime.recommend(known, k, **options)
        _report_list(runtime, {"user": known}, found, as_json=as_json)
    else:
        items = [runtime.items.of_kind(item) for item in liked or ()]
        found = runtime.recommend_for(items, k, **options)
        _report_list(runtime, {"liked": items}, found, as_json=as_json)


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
    print_table(tuple(columns), list(zip(*columns.values(), strict=True)))


def _note_formulas(output: Path, runtime: Runtime) -> None:
    if output.suffix == ".csv" and any(map(looks_like_a_formula, (runtime.users, runtime.items))):
        print_note(
            "note",
            "some ids begin with =, +, - or @ and are written as they are, so that programs find "
            "them again; a spreadsheet would take them for formulas: import the columns as text, "
            "or write a .parquet file",
        )


def _report_table(output: Path, count: int, skipped: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"output": str(output), "rows": count, "skipped_users": skipped})
    else:
        if skipped:
            print_note("skipped", f"{skipped:,} of the users, whom the model does not know")
        print_note("saved", f"{count:,} rows to {output}")
