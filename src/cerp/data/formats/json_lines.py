"""JSON lines: one object per line."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cerp.data.formats import text_files
from cerp.data.formats.base import FileFormat, SourceFile
from cerp.data.formats.columns import Column, Origin, Wanted, choose_columns
from cerp.data.formats.duckdb_scan import (
    Database,
    Scan,
    ScanError,
    condition_error,
    exact,
    quoted,
    read_scan,
)
from cerp.data.formats.frames import Values, kept_rows, named, read_columns
from cerp.data.formats.times import SECONDS, TEXT_READINGS, WHOLE_NUMBER, time_readings
from cerp.data.interactions import Interactions
from cerp.errors import DataError

LINES_FOR_NAMES = 1000
"""Names are collected from as many objects: the first may lack one."""


PLAIN_TYPES: dict[str, tuple[Collection[str], str]] = {
    "text": ({"VARCHAR"}, "varchar"),
    "integer": ({"BIGINT", "UBIGINT"}, "bigint"),
    "number": ({"BIGINT", "UBIGINT", "DOUBLE"}, "double"),
}
"""JSON's types as DuckDB calls them, and what a column of nothing else is read as."""
KINDS = {
    "user": ("text", "integer"),
    "item": ("text", "integer"),
    "rating": ("number",),
    "time": ("text", "integer", "number"),
}
TIME_READINGS = {"text": TEXT_READINGS, "integer": (WHOLE_NUMBER,), "number": (SECONDS,)}


def read_json_lines(file: SourceFile, wanted: Wanted) -> Interactions:
    """The interactions in a file: by DuckDB, and line by line where that finds something odd.

    DuckDB refuses what is no JSON object, and has columns of one type each read and encoded. A
    file with anything else in it is read again by Python, which names the line.
    """
    plain, source = file.plain, file.path
    names: list[Column] = list(
        dict.fromkeys(
            name
            for _, record in itertools.islice(_objects(plain, source), LINES_FOR_NAMES)
            for name in record
        )
    )
    if not names:
        raise text_files.empty_error(source)
    roles = choose_columns(names, wanted, str(source))
    columns = {role: str(names[position]) for role, position in roles.present()}
    origin = Origin(str(source), lambda row: f"line {_line_of(row, plain, source)}")
    with Database() as database:
        scan = _scan(database, plain, columns, wanted, origin)
        if scan is not None:
            return named(read_scan(database, scan, wanted, origin), names, roles)
    return named(_read_by_line(file, columns, wanted, origin), names, roles)


def _scan(
    database: Database, plain: Path, columns: dict[str, str], wanted: Wanted, origin: Origin
) -> Scan | None:
    """The columns in DuckDB; None where they are not of one plain type each."""
    if len({name.lower() for name in columns.values()}) < len(columns):
        return None  # names that SQL does not tell apart
    given = ", ".join(f"{_literal(name)}: 'JSON'" for name in columns.values())
    table = f"{_table(plain)[:-1]}, columns={{{given}}})"
    chosen = ", ".join(f'{quoted(name)} as "{role}"' for role, name in columns.items())
    try:
        database.rows(f"create temp table lines as select {chosen} from {table}")
        types = {
            role: {
                kind for (kind,) in database.rows(f'select distinct json_type("{role}") from lines')
            }
            for role in columns
        }
        kinds = {role: _kind(KINDS[role], found) for role, found in types.items()}
        if None in kinds.values():
            return None
        if wanted.time_format is not None and kinds.get("time") != "text":
            return None
        typed = ", ".join(
            f'("{role}"->>\'$\')::{PLAIN_TYPES[kind][1]} as "{role}"'
            for role, kind in kinds.items()
            if kind is not None
        )
        database.rows(f"create temp table typed as select {typed} from lines")
    except ScanError:
        return None
    database.rows("drop table lines")
    where = None
    if wanted.where is not None:
        where = "is_wanted"
        _keep(database, plain, wanted.where, origin)
    readings = TIME_READINGS[kinds["time"] or "text"] if "time" in kinds else ()
    return Scan(
        "typed",
        {},
        {role: f'"{role}"' for role in columns},
        time_readings(wanted, readings) if readings else (),
        is_text=False,
        where=where,
    )


def _kind(allowed: Sequence[str], found: Collection[str | None]) -> str | None:
    """The first kind that all types of a column are of; a missing value is of none."""
    return next((kind for kind in allowed if set(found) <= set(PLAIN_TYPES[kind][0])), None)


def _keep(database: Database, plain: Path, where: str, origin: Origin) -> None:
    """Say beside each row of ``typed`` whether a condition on the whole line keeps it."""
    try:
        database.rows(
            "create or replace temp table typed as select typed.*, is_wanted from typed "
            f"positional join (select coalesce(({where}), false) as is_wanted from {_table(plain)})"
        )
    except ScanError as error:
        raise condition_error(where, error, origin) from None


def _table(plain: Path) -> str:
    path = _literal(exact(plain))
    return f"read_json({path}, format='newline_delimited', hive_partitioning=false)"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _read_by_line(
    file: SourceFile, chosen: dict[str, str], wanted: Wanted, origin: Origin
) -> Interactions:
    columns: dict[str, list[Any]] = {role: [] for role in chosen}
    for _, record in _objects(file.plain, file.path):
        for role, name in chosen.items():
            value = record.get(name)
            # Equal strings become one object: ids repeat, and would fill the memory.
            columns[role].append(sys.intern(value) if isinstance(value, str) else value)
    arrays = {role: _array(column) for role, column in columns.items()}
    kept = None
    if wanted.where is not None:
        with Database() as database:
            kept = kept_rows(database, _table(file.plain), wanted.where, origin)
    return read_columns(arrays, wanted, origin, kept)


def _objects(plain: Path, source: Path) -> Iterator[tuple[int, dict[Column, Any]]]:
    for number, line in enumerate(text_files.lines(plain, source), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{source}, line {number}: not JSON ({error})") from None
        if not isinstance(record, dict):
            raise DataError(
                f"{source}, line {number}: not a JSON object; cerp reads JSON lines, "
                "which hold one object per line"
            )
        yield number, record


def _line_of(row: int, plain: Path, source: Path) -> int:
    return next(itertools.islice(_objects(plain, source), row, None))[0]


def _array(column: list[Any]) -> Values:
    array = np.empty(len(column), dtype=object)
    array[:] = column
    return array


JSON_LINES = FileFormat("JSON lines", read_json_lines, (".jsonl", ".ndjson", ".json"))
