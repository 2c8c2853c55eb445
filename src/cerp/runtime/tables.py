"""Recommendations for a table of users, as a table: CSV by itself, Parquet with DuckDB."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from cerp.data.formats.columns import USER_NAMES, is_recognised
from cerp.data.formats.tables import Database, ScanError
from cerp.data.ids import Id, Ids
from cerp.errors import ConfigError, DataError
from cerp.files import errors_named, refuse_unwritable
from cerp.runtime.recommending import Recommendation, Runtime

HEADER = ("user", "item", "rank", "score")
PARQUET = (".parquet", ".pq")
CHUNK = 1024
"""Users at a time: what is held in memory does not grow with the table."""


def read_users(path: Path, ids: Ids) -> Iterator[Id]:
    """The users in a CSV or Parquet file, each once, in the order of their first rows.

    Their column is found by its name. A user whom the model does not know is refused.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    found: set[Id] = set()
    try:
        for place, user in _parquet_users(path) if _is_parquet(path) else _csv_users(path, ids):
            if user not in ids:
                raise _unknown_user(user, ids, f"{path}, {place}")
            if user not in found:
                found.add(user)
                yield user
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def write_lists(
    path: Path,
    runtime: Runtime,
    users: Iterable[Id],
    recommend: Callable[[list[Id]], list[list[Recommendation]]],
) -> int:
    """Write a row for every place of every list, and say how many; the file appears when whole."""
    is_parquet = _is_parquet(path)
    refuse_unwritable(path)
    scratch = path.with_name(f".{path.name}.writing")
    converted = path.with_name(f".{path.name}.converting")
    with errors_named(path):
        try:
            with scratch.open("w", encoding="utf-8", newline="") as file:
                table = csv.writer(file, lineterminator="\n")
                table.writerow(HEADER)
                count = 0
                for chunk in _chunks(users):
                    rows = list(_places(chunk, recommend(chunk)))
                    table.writerows(rows)
                    count += len(rows)
            if is_parquet:
                _convert(scratch, converted, runtime)
                converted.replace(path)
            else:
                scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
            converted.unlink(missing_ok=True)
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
    given = {"file": str(path)}
    try:
        with Database() as database:
            described = database.rows("describe select * from read_parquet($file)", given)
            names = [name for name, *_ in described]
            name = names[_user_column(names, path)].replace('"', '""')
            rows = database.rows(f'select "{name}" from read_parquet($file)', given)
            for number, (user,) in enumerate(rows, start=1):
                yield f"row {number}", user
    except ScanError as error:
        raise DataError(f"{path}: not readable as Parquet ({error})") from None


def _unknown_user(user: Id, ids: Ids, where: str) -> DataError:
    kind = "integers" if ids.are_integers else "strings"
    return DataError(
        f"{where}: unknown user {user!r}; only users of the training data are known, and their "
        f"ids are {kind}. Remove the row, or recommend to someone new with --liked"
    )


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
            f"columns={columns}, quote='\"', escape='\"')) to '{target}' (format parquet)",
            {"file": str(table)},
        )


def _is_parquet(path: Path) -> bool:
    if path.suffix not in (".csv", *PARQUET):
        raise ConfigError(f"{path}: tables of users and lists are .csv or .parquet files")
    return path.suffix in PARQUET
