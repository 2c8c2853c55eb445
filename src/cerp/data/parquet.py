"""Parquet: one file, or a folder of parts of one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cerp.data.columns import Origin, Wanted, choose
from cerp.data.interactions import Interactions
from cerp.data.tables import INSTANT, SECONDS, TEXT_TIMES, WHOLE_NUMBER, Database, encode_loaded
from cerp.errors import DataError

INTEGERS = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG")} | {
    "INTEGER",
    "UINTEGER",
}
TEXTS = {"VARCHAR", "UUID"}


def read_parquet(files: Sequence[Path], source: Path, wanted: Wanted) -> Interactions:
    """The interactions in the files together; ``source`` is their name in messages."""
    scan = "read_parquet($files, hive_partitioning=false)"
    given = {"files": [str(file) for file in files]}
    with Database() as database:
        try:
            described = database.run(f"describe select * from {scan}", given).fetchall()
        except DataError as error:
            raise _unreadable(source, error) from None
        names, types = [row[0] for row in described], [row[1] for row in described]
        roles = choose(names, wanted, str(source))
        columns = {role: _quoted(names[position]) for role, position in roles.present()}
        for side, position in (("user", roles.user), ("item", roles.item)):
            if types[position] in TEXTS or types[position].startswith("ENUM"):
                columns[side] += "::varchar"
            elif types[position] not in INTEGERS:
                raise DataError(
                    f"{source}: the column {names[position]!r} of {side} ids is of type "
                    f"{types[position]}; ids must be integers or strings (convert it first)"
                )
        times = _time_readings(types[roles.time]) if roles.time is not None else ()
        try:
            database.load(scan, given, columns)
        except DataError as error:
            raise _unreadable(source, error) from None
        return encode_loaded(database, wanted, Origin(str(source)), times, is_text=False)


def _time_readings(kind: str) -> tuple[str, ...]:
    if kind in TEXTS:
        return TEXT_TIMES
    if kind in INTEGERS:
        return (WHOLE_NUMBER,)
    if kind.startswith(("TIMESTAMP", "DATE")):
        return (INSTANT,)
    return (SECONDS,)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unreadable(source: Path, error: DataError) -> DataError:
    return DataError(f"{source}: not readable as Parquet ({error})")
