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
from cerp.data.formats.columns import SIDES, Column, Origin, Wanted, choose_columns
from cerp.data.formats.duckdb_memory import Database, ScanError, exact, quoted
from cerp.data.formats.duckdb_scan import Scan, condition_error, read_scan
from cerp.data.formats.frames import Values, kept_rows, named, read_columns
from cerp.data.formats.line_form import json_form
from cerp.data.formats.regular_text import RegularText
from cerp.data.formats.times import (
    INSTANT_FIRST,
    SECONDS,
    TEXT_READINGS,
    WHOLE_NUMBER_TEXT,
    time_readings,
)
from cerp.data.interactions import Interactions
from cerp.errors import DataError

LINES_FOR_NAMES = 1000
"""Names are collected from as many objects: the first may lack one."""


# The JSON of a value, which DuckDB writes, tells its type: a text is between quotes, and a number
# that is no integer has a point or an exponent. Equal values are written alike.
TEXT = (
    """case when not starts_with({0}, '"') then null """
    # Between the quotes is the text itself, unless something in it is escaped.
    "when contains({0}, chr(92)) then {0}::json->>'$' else {0}[2:-2] end"
)
INTEGER = "case when regexp_full_match({0}, '-?[0-9]+') then try_cast({0} as bigint) end"
WITHOUT_EXPONENT = "case when not contains({0}, 'e') then {0} end"
"""Of a number that is a time: few have one, and those are read line by line."""
NUMBER_READINGS = (WHOLE_NUMBER_TEXT, SECONDS)


def read_json_lines(file: SourceFile, wanted: Wanted) -> Interactions:
    """The interactions in a file: by DuckDB, and line by line where that finds something odd.

    Where all lines are of one form neither is needed. DuckDB refuses what is no JSON object, and
    what is not of the types that the first object has is missing to it. Python then reads the file
    again, which knows more types and names the line.
    """
    plain, source = file.plain, file.path
    head = [record for _, record in itertools.islice(_objects(plain, source), LINES_FOR_NAMES)]
    names: list[Column] = list(dict.fromkeys(itertools.chain.from_iterable(head)))
    if not names:
        raise text_files.empty_error(source)
    roles = choose_columns(names, wanted, str(source))
    columns = {role: str(names[position]) for role, position in roles.present()}
    origin = Origin(str(source), lambda row: f"line {_line_of(row, plain, source)}")
    data = _read_regular(file, columns, wanted, origin)
    if data is None:
        data = _read_by_duckdb(file, columns, head, wanted, origin)
    if data is None:
        data = _read_by_line(file, columns, wanted, origin)
    return named(data, names, roles)


def _read_regular(
    file: SourceFile, columns: dict[str, str], wanted: Wanted, origin: Origin
) -> Interactions | None:
    """The interactions, where all lines are of one form."""
    with file.plain.open("rb") as lines:
        found = json_form(lines.readline())
    if found is None:
        return None
    form, names = found
    if not set(columns.values()) <= set(names):
        return None
    fields = {role: names.index(name) for role, name in columns.items()}
    if "time" in fields and not form.fields[fields["time"]].is_number:
        return None
    return RegularText(file.plain, 0, form, fields, is_text=False).read(wanted, origin)


def _read_by_duckdb(
    file: SourceFile,
    columns: dict[str, str],
    head: list[dict[Column, Any]],
    wanted: Wanted,
    origin: Origin,
) -> Interactions | None:
    """The interactions; None where anything is odd."""
    if len({name.lower() for name in columns.values()}) < len(columns):
        return None  # names that SQL does not tell apart
    firsts = {role: head[0].get(name) for role, name in columns.items()}
    is_text = {role: isinstance(value, str) for role, value in firsts.items()}
    if wanted.time_format is not None and not is_text.get("time"):
        return None
    expressions = {role: f'"{role}"' for role in columns}
    readings: tuple[str, ...] = ()
    if "time" in columns:
        kept = TEXT if is_text["time"] else WITHOUT_EXPONENT
        expressions["time"] = f"({kept.format(expressions['time'])})"
        if not is_text["time"]:
            readings = NUMBER_READINGS
        else:
            texts = [record.get(columns["time"]) for record in head]
            readings = TEXT_READINGS if all(map(_is_numeric, texts)) else INSTANT_FIRST
    try:
        with Database() as database:
            scan = Scan(
                _json_of_columns(database, file.plain, columns, wanted, origin),
                {},
                expressions,
                time_readings(wanted, readings) if readings else (),
                is_text=False,
                where=None if wanted.where is None else "is_wanted",
                ids={side: TEXT if is_text[side] else INTEGER for side in SIDES},
            )
            return read_scan(database, scan, wanted, origin)
    except DataError:
        return None


def _is_numeric(text: Any) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def _json_of_columns(
    database: Database, plain: Path, columns: dict[str, str], wanted: Wanted, origin: Origin
) -> str:
    """What SQL calls the table of the columns, by role and as JSON."""
    given = ", ".join(f"{_literal(name)}: 'JSON'" for name in columns.values())
    chosen = ", ".join(f'{quoted(name)}::varchar as "{role}"' for role, name in columns.items())
    table = f"(select {chosen} from {_table(plain)[:-1]}, columns={{{given}}}))"
    if wanted.where is None:
        return table
    # A condition is on whole lines, with the types that DuckDB sees in them.
    database.rows(f"create temp table lines as select * from {table}")
    wanted_rows = f"select coalesce(({wanted.where}), false) as is_wanted from {_table(plain)}"
    try:
        database.rows(
            "create or replace temp table lines as select * from lines "
            f"positional join ({wanted_rows})"
        )
    except ScanError as error:
        raise condition_error(wanted.where, error, origin) from None
    return "lines"


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
