"""Columns that are in memory already: data frames, Arrow tables, parsed JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.formats.columns import (
    Column,
    Origin,
    Roles,
    Wanted,
    choose_columns,
    unreadable_rating_error,
    unusable_weight_error,
)
from cerp.data.formats.duckdb_memory import Database, ScanError
from cerp.data.formats.duckdb_scan import condition_error, times_of_text
from cerp.data.formats.times import (
    KEEP_THE_UNIT,
    TEXT_READINGS,
    of_one_unit,
    time_readings,
    unreadable_time_error,
)
from cerp.data.formats.vocabulary import encode, native_order
from cerp.data.ids import Ids, Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.source_facts import SourceFacts

Values = npt.NDArray[Any]
"""A column; in an object array None is a missing value."""


def read_columns(
    columns: dict[str, Values],
    wanted: Wanted,
    origin: Origin,
    kept: npt.NDArray[np.bool_] | None = None,
) -> Interactions:
    """Interactions of columns by role: user, item and, where there are such, rating, time, weight.

    ``kept`` says which rows a condition keeps.
    """
    rows: Int64Array = np.arange(len(columns["user"]))
    if kept is not None:
        rows = rows[kept]
    if wanted.min_rating is not None:
        rows = rows[_ratings(columns["rating"], origin)[rows] >= wanted.min_rating]
    (users, user), (items, item) = (
        _ids(columns[side], rows, side, origin, as_strings=wanted.ids == "string")
        for side in ("user", "item")
    )
    time = _times(columns["time"], rows, origin, wanted) if "time" in columns else None
    weight = _weights(columns["weight"], rows, origin) if "weight" in columns else None
    data = Interactions.from_codes(user, item, users=users, items=items, time=time, weight=weight)
    total = len(columns["user"])
    return replace(data, source=SourceFacts(origin.name, total, total - len(rows)))


def read_frame(frame: Any, wanted: Wanted) -> Interactions:
    """Interactions of a pandas, polars or pyarrow table."""
    library = type(frame).__module__.partition(".")[0]
    origin = Origin(f"the {library} table")
    names: list[Column] = list(frame.column_names if library == "pyarrow" else frame.columns)
    roles = choose_columns(names, wanted, origin.name)
    columns = {role: _column(frame, names[position]) for role, position in roles.present()}
    kept = None
    if wanted.where is not None:
        with Database() as database:
            database.register("given", frame)
            kept = kept_rows(database, "given", wanted.where, origin)
    return named(read_columns(columns, wanted, origin, kept), names, roles)


def kept_rows(database: Database, table: str, where: str, origin: Origin) -> npt.NDArray[np.bool_]:
    """Which rows of a table, in its order, a condition keeps."""
    try:
        found = database.arrays(f"select coalesce(({where}), false) as is_kept from {table}")
    except ScanError as error:
        raise condition_error(where, error, origin) from None
    return np.asarray(found["is_kept"], dtype=bool)


def named(data: Interactions, names: Sequence[Column], roles: Roles) -> Interactions:
    """The same, saying which columns were read and which were not."""
    assert data.source is not None
    chosen = {role: names[position] for role, position in roles.present()}
    ignored = tuple(name for name in names if name not in chosen.values())
    return replace(data, source=replace(data.source, columns=chosen, ignored=ignored))


def _ids(
    values: Values, rows: Int64Array, side: str, origin: Origin, *, as_strings: bool
) -> tuple[Ids, Int32Array]:
    vocabulary, codes = encode(values, rows, side, origin)
    ids, rank = native_order(vocabulary, side, origin, is_text=False, as_strings=as_strings)
    return ids, rank[codes]


def _column(frame: Any, name: Column) -> Values:
    """A column as NumPy has it, with None in place of whatever the library calls missing."""
    column = frame[name]
    missing = column.isna() if hasattr(column, "isna") else column.is_null()
    mask = np.asarray(missing, dtype=bool)
    try:
        values = np.asarray(column)
    except Exception:  # polars panics over what NumPy has no type for, such as 128-bit integers
        values = np.empty(len(mask), dtype=object)
        values[:] = column.to_list()
    if mask.any():
        values = values.astype(object)
        values[mask] = None
    return values


def _numbers(values: Values) -> npt.NDArray[np.float64]:
    """A column as numbers, NaN where there is none."""
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    return np.array([_number(value) for value in values], dtype=np.float64)


def _weights(values: Values, rows: Int64Array, origin: Origin) -> npt.NDArray[np.float64]:
    weights = _numbers(values)[rows]
    bad = ~(np.isfinite(weights) & (weights > 0))
    if bad.any():
        row = int(rows[int(np.argmax(bad))])
        raise unusable_weight_error(origin, row, values[row])
    return weights


def _ratings(values: Values, origin: Origin) -> npt.NDArray[np.float64]:
    ratings = _numbers(values)
    bad = ~np.isfinite(ratings)
    if bad.any():
        row = int(np.argmax(bad))
        raise unreadable_rating_error(origin, row, values[row])
    return ratings


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _times(values: Values, rows: Int64Array, origin: Origin, wanted: Wanted) -> Int64Array:
    """Times as int64: dates and numbers go by their type, everything else is read as text."""
    chosen = values[rows]
    if wanted.time_format is not None:
        return _read_as_text(values, rows, origin, wanted)
    if chosen.dtype.kind == "M":
        return chosen.astype("datetime64[us]").astype(np.int64)
    if {type(value) for value in chosen.tolist()} <= {int, float}:
        chosen = np.array(chosen.tolist())  # objects, or unsigned
    if chosen.dtype.kind == "i":
        return of_one_unit(chosen.astype(np.int64), rows, origin)
    if chosen.dtype.kind == "f":
        seconds = chosen * 1e6
        unread = ~(np.abs(seconds) < 2.0**63)
        times = np.rint(np.where(unread, 0, seconds)).astype(np.int64)
    else:
        return _read_as_text(values, rows, origin, wanted)
    if unread.any():
        row = int(unread.argmax())
        raise unreadable_time_error(origin, int(rows[row]), values[rows].tolist()[row])
    return times


def _read_as_text(values: Values, rows: Int64Array, origin: Origin, wanted: Wanted) -> Int64Array:
    texts = [None if value is None else str(value) for value in values[rows].tolist()]
    times, unread, reading = times_of_text(texts, time_readings(wanted, TEXT_READINGS))
    if unread.any():
        row = int(unread.argmax())
        raise unreadable_time_error(origin, int(rows[row]), values[rows].tolist()[row])
    return of_one_unit(times, rows, origin) if reading in KEEP_THE_UNIT else times
