"""JSON lines: one object per line."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
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


PLAIN_TYPES = {
    "text": (
        """starts_with({0}, '"')""",
        # Between the quotes is the text itself, unless something in it is escaped.
        "case when contains({0}, chr(92)) then {0}::json->>'$' "
        "else substring({0}, 2, length({0}) - 2) end",
    ),
    "integer": ("try_cast({0} as bigint) is not null and not contains({0}, '.')", "{0}::bigint"),
    "number": ("try_cast({0} as double) is not null", "{0}::double"),
}
"""How the JSON of a value of each type is told, and what it is read as. DuckDB writes the JSON:
a double always has a point, and a text between quotes is no number."""
KINDS = {
    "user": ("text", "integer"),
    "item": ("text", "integer"),
    "rating": ("number",),
    "time": ("text", "integer", "number"),
    "weight": ("number",),
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
    chosen = ", ".join(f'{quoted(name)}::varchar as "{role}"' for role, name in columns.items())
    try:
        database.rows(f"create temp table lines as select {chosen} from {table}")
        kinds = {role: _kind(database, role) for role in columns}
        if None in kinds.values():
            return None
        if wanted.time_format is not None and kinds.get("time") != "text":
            return None
        typed = ", ".join(
            f'{PLAIN_TYPES[kind][1].format(quoted(role))} as "{role}"'
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


def _kind(database: Database, role: str) -> str | None:
    """The first type that all values of a column are of; a missing one is of none."""
    column = quoted(role)
    for kind in KINDS[role]:
        told = PLAIN_TYPES[kind][0].format(column)
        ((fits,),) = database.rows(f"select bool_and(coalesce({told}, false)) from lines")
        if fits:
            return kind
    return None


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
