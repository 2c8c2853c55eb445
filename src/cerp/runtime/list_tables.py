"""Recommendations for a table of users, as a table: CSV by itself, Parquet with DuckDB."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from cerp.data.formats.columns import USER_NAMES, is_recognised
from cerp.data.formats.duckdb_scan import Database, ScanError, exact
from cerp.data.ids import Id, Ids
from cerp.errors import ConfigError, DataError
from cerp.files import refuse_unwritable, replacing, scratch_beside
from cerp.runtime.recommending import Recommendation, Runtime

HEADER = ("user", "item", "rank", "score")
PARQUET = (".parquet", ".pq")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
CHUNK = 1024
"""Users at a time: lists are written before the next ones are made."""


class FoundUsers(NamedTuple):
    """The users in a table, each once, in the order of their first rows."""

    known: list[Id]
    unknown: dict[Id, str]
    """Those whom the model does not know, and where in the table each comes first."""


def refuse_output(output: Path, users: Path) -> None:
    """Refuse a file that lists for a table of users cannot be written to."""
    _is_parquet(output)
    refuse_unwritable(output)
    if output.exists() and users.exists() and output.samefile(users):
        raise ConfigError(f"{output} is the file that the users are read from; choose another name")


def read_users(path: Path, ids: Ids) -> FoundUsers:
    """The users in a CSV or Parquet file; their column is found by its name."""
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    known: dict[Id, None] = {}
    unknown: dict[Id, str] = {}
    try:
        for place, user in _parquet_users(path) if _is_parquet(path) else _csv_users(path, ids):
            if user in ids:
                known[user] = None
            else:
                unknown.setdefault(user, place)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return FoundUsers(list(known), unknown)


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


def write_lists(
    path: Path,
    runtime: Runtime,
    users: Iterable[Id],
    recommend: Callable[[list[Id]], list[list[Recommendation]]],
) -> int:
    """Write a row for every place of every list, and say how many; the file appears when whole."""
    with replacing(path) as scratch:
        if not _is_parquet(path):
            return _write_csv(scratch, users, recommend)
        with scratch_beside(path) as table:
            count = _write_csv(table, users, recommend)
            _convert(table, scratch, runtime)
    return count


def _write_csv(
    path: Path,
    users: Iterable[Id],
    recommend: Callable[[list[Id]], list[list[Recommendation]]],
) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        # csv quotes what is in its own line ending, and other readers end lines at a \r too.
        quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        table.writerow(HEADER)
        for chunk in _chunks(users):
            rows = list(_places(chunk, recommend(chunk)))
            for row in rows:
                (quoted if "\r" in f"{row[0]}{row[1]}" else table).writerow(row)
            count += len(rows)
    return count


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


def _chunks(users: Iterable[Id]) -> Iterator[list[Id]]:
    rest = iter(users)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _places(
    users: list[Id], lists: list[list[Recommendation]]
) -> Iterator[tuple[Id, Id, int, float]]:
    for user, places in zip(users, lists, strict=True):
        for rank, place in enumerate(places, start=1):
            yield user, place.item, rank, place.score


def _convert(table: Path, parquet: Path, runtime: Runtime) -> None:
    kinds = ["BIGINT" if ids.are_integers else "VARCHAR" for ids in (runtime.users, runtime.items)]
    columns = dict(zip(HEADER, (*kinds, "INTEGER", "FLOAT"), strict=True))
    target = str(parquet).replace("'", "''")
    with Database() as database:
        database.rows(
            f"copy (select * from read_csv($file, auto_detect=false, header=true, "
            f"columns={columns}, quote='\"', escape='\"', compression=none, "
            f"hive_partitioning=false)) to '{target}' "
            # The target is a scratch file already.
            "(format parquet, use_tmp_file false)",
            {"file": exact(table)},
        )


def _is_parquet(path: Path) -> bool:
    if path.suffix not in (".csv", *PARQUET):
        raise ConfigError(f"{path}: tables of users and lists are .csv or .parquet files")
    return path.suffix in PARQUET
