"""Tables of users that lists are wanted for: CSV by itself, Parquet with DuckDB."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cerp.data.formats.columns import USER_NAMES, is_recognised
from cerp.data.formats.duckdb_memory import Database, ScanError, exact
from cerp.data.ids import Id, Ids
from cerp.errors import ConfigError, DataError

PARQUET = (".parquet", ".pq")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class FoundUsers(NamedTuple):
    """The users in a table, each once, in the order of their first rows."""

    known: list[Id]
    unknown: dict[Id, str]
    """Those whom the model does not know, and where in the table each comes first."""


def refuse_output(output: Path, users: Path) -> None:
    """Refuse a file that lists for a table of users cannot be written to."""
    if output.exists() and users.exists() and output.samefile(users):
        raise ConfigError(f"{output} is the file that the users are read from; choose another name")


def read_users(path: Path, ids: Ids) -> FoundUsers:
    """The users in a CSV or Parquet file; their column is found by its name."""
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    first_places: dict[Id, str] = {}
    try:
        for place, user in _parquet_users(path) if _is_parquet(path) else _csv_users(path, ids):
            first_places.setdefault(user, place)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    users = list(first_places)
    known = list(itertools.compress(users, ids.known(users)))
    for user in known:
        del first_places[user]
    return FoundUsers(known, unknown=first_places)


def refuse_unknown(found: FoundUsers, path: Path, ids: Ids) -> None:
    """Refuse a table with users whom the model does not know, before work is spent on it."""
    if not found.unknown:
        return
    user, place = next(iter(found.unknown.items()))
    count = f", the first of {len(found.unknown):,}" if len(found.unknown) > 1 else ""
    kind = "integers" if ids.are_integers else "strings"
    raise DataError(
        f"{path}, {place}: unknown user {user!r}{count}; only users of the training data are "
        f"known, and their ids are {kind}. Leave unknown users out (skip_unknown=True), or "
        "recommend to someone new from the items they like"
    )


def looks_like_a_formula(ids: Ids) -> bool:
    """Whether a spreadsheet that opens a CSV file would compute some of the ids."""
    return not ids.are_integers and any(one[:1] in FORMULA_STARTS for one in ids.values.tolist())


def _csv_users(path: Path, ids: Ids) -> Iterator[tuple[str, Id]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        try:
            column = _user_column(next(rows, []), path)
            for row in rows:
                if row:
                    yield f"line {rows.line_num}", ids.of_kind(row[column])
        except (csv.Error, UnicodeDecodeError, IndexError) as error:
            raise DataError(
                f"{path}, line {rows.line_num}: not CSV ({error}); every row must have the columns "
                "of line 1, in UTF-8"
            ) from None


def _parquet_users(path: Path) -> Iterator[tuple[str, Id]]:
    table, given = "read_parquet($file, hive_partitioning=false)", {"file": exact(path)}
    try:
        with Database() as database:
            described = database.rows(f"describe select * from {table}", given)
            names = [name for name, *_ in described]
            name = names[_user_column(names, path)].replace('"', '""')
            rows = database.rows(f'select "{name}" from {table}', given)
            for number, (user,) in enumerate(rows, start=1):
                yield f"row {number}", user
    except ScanError as error:
        raise DataError(f"{path}: not readable as Parquet ({error})") from None


def _user_column(names: list[str], path: Path) -> int:
    found = [place for place, name in enumerate(names) if is_recognised(name, USER_NAMES)]
    if len(found) != 1:
        present = ", ".join(map(repr, names)) or "none"
        raise DataError(
            f"{path}: the columns are {present}; exactly one must be named like a user, such as "
            "'user' or 'user_id' (in CSV, line 1 holds the names)"
        )
    return found[0]


def _is_parquet(path: Path) -> bool:
    if path.suffix not in (".csv", *PARQUET):
        raise ConfigError(f"{path}: tables of users are .csv or .parquet files")
    return path.suffix in PARQUET
