"""Parquet: one file, or a folder of parts of one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cerp.data.formats.base import FileFormat, SourceFile
from cerp.data.formats.columns import Origin, Wanted, choose_columns
from cerp.data.formats.duckdb_scan import Database, Scan, ScanError, exact, read_scan
from cerp.data.formats.times import INSTANT, SECONDS, TEXT_READINGS, WHOLE_NUMBER
from cerp.data.interactions import Interactions
from cerp.errors import DataError

INTEGERS = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG")} | {
    "INTEGER",
    "UINTEGER",
}
SUFFIXES = (".parquet", ".pq")
TEXTS = {"VARCHAR", "UUID"}


def read_parquet(file: SourceFile, wanted: Wanted) -> Interactions:
    """The interactions in a file."""
    return read_parts([file.plain], file.path, wanted)


def parts_in(folder: Path) -> list[Path]:
    """The parts of one table that lie in a folder, by name."""
    return sorted(
        file
        for file in folder.iterdir()
        if file.suffix.lower() in SUFFIXES and file.name[0] not in "._"
    )


def read_parts(files: Sequence[Path], source: Path, wanted: Wanted) -> Interactions:
    """The interactions in the files together; ``source`` is their name in messages."""
    table = "read_parquet($files, hive_partitioning=false)"
    given = {"files": [exact(file) for file in files]}
    try:
        with Database() as database:
            described = database.rows(f"describe select * from {table}", given)
            names, types = [row[0] for row in described], [row[1] for row in described]
            roles = choose_columns(names, wanted, str(source))
            columns = {role: _quoted(names[position]) for role, position in roles.present()}
            for side, position in (("user", roles.user), ("item", roles.item)):
                columns[side] += _id_cast(types[position], names[position], side, source)
            times = _time_readings(types[roles.time]) if roles.time is not None else ()
            scan = Scan(table, given, columns, times, is_text=False)
            return read_scan(database, scan, wanted, Origin(str(source)))
    except ScanError as error:
        raise DataError(f"{source}: not readable as Parquet ({error})") from None


def _id_cast(kind: str, name: str, side: str, source: Path) -> str:
    if kind in TEXTS or kind.startswith("ENUM"):
        return "::varchar"
    if kind in INTEGERS:
        return ""
    raise DataError(
        f"{source}: the column {name!r} of {side} ids is of type {kind}; "
        "ids must be integers or strings (convert it first)"
    )


def _time_readings(kind: str) -> tuple[str, ...]:
    if kind in TEXTS:
        return TEXT_READINGS
    if kind in INTEGERS:
        return (WHOLE_NUMBER,)
    if kind.startswith(("TIMESTAMP", "DATE")):
        return (INSTANT,)
    return (SECONDS,)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


PARQUET = FileFormat("Parquet", read_parquet, SUFFIXES, is_text=False)
