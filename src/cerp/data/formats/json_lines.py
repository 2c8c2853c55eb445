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
from cerp.data.formats.duckdb_scan import Database, exact
from cerp.data.formats.frames import Values, kept_rows, named, read_columns
from cerp.data.interactions import Interactions
from cerp.errors import DataError

LINES_FOR_NAMES = 1000
"""Names are collected from as many objects: the first may lack one."""


def read_json_lines(file: SourceFile, wanted: Wanted) -> Interactions:
    """The interactions in a file."""
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
    columns: dict[str, list[Any]] = {role: [] for role, _ in roles.present()}
    wanted_names = [(columns[role], names[position]) for role, position in roles.present()]
    for _, record in _objects(plain, source):
        for column, name in wanted_names:
            value = record.get(name)
            # Equal strings become one object: ids repeat, and would fill the memory.
            column.append(sys.intern(value) if isinstance(value, str) else value)
    origin = Origin(str(source), lambda row: f"line {_line_of(row, plain, source)}")
    arrays = {role: _array(column) for role, column in columns.items()}
    kept = None
    if wanted.where is not None:
        with Database() as database:
            path = exact(plain).replace("'", "''")
            table = f"read_json('{path}', format='newline_delimited', hive_partitioning=false)"
            kept = kept_rows(database, table, wanted.where, origin)
    return named(read_columns(arrays, wanted, origin, kept), names, roles)


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
