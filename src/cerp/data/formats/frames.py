"""Columns that are in memory already: data frames, Arrow tables, parsed JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.formats.columns import (
    Column,
    Origin,
    Wanted,
    choose_columns,
    unreadable_rating_error,
)
from cerp.data.formats.duckdb_scan import times_of_text
from cerp.data.formats.times import KEEP_THE_UNIT, of_one_unit, unreadable_time_error
from cerp.data.formats.vocabulary import encode, native_order
from cerp.data.ids import Ids, Int32Array, Int64Array
from cerp.data.interactions import Interactions

Values = npt.NDArray[Any]
"""A column; in an object array None is a missing value."""


def read_columns(columns: dict[str, Values], wanted: Wanted, origin: Origin) -> Interactions:
    """Interactions of columns by role: user, item and, where there are such, rating and time."""
    rows: Int64Array = np.arange(len(columns["user"]))
    if wanted.min_rating is not None:
        rows = rows[_ratings(columns["rating"], origin) >= wanted.min_rating]
    (users, user), (items, item) = (
        _ids(columns[side], rows, side, origin, as_strings=wanted.ids == "string")
        for side in ("user", "item")
    )
    time = _times(columns["time"], rows, origin) if "time" in columns else None
    return Interactions.from_codes(user, item, users=users, items=items, time=time)


def read_frame(frame: Any, wanted: Wanted) -> Interactions:
    """Interactions of a pandas, polars or pyarrow table."""
    library = type(frame).__module__.partition(".")[0]
    origin = Origin(f"the {library} table")
    names: list[Column] = list(frame.column_names if library == "pyarrow" else frame.columns)
    roles = choose_columns(names, wanted, origin.name)
    columns = {role: _column(frame, names[position]) for role, position in roles.present()}
    return read_columns(columns, wanted, origin)


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


def _ratings(values: Values, origin: Origin) -> npt.NDArray[np.float64]:
    if values.dtype.kind in "iuf":
        ratings = values.astype(np.float64)
    else:
        ratings = np.array([_number(value) for value in values], dtype=np.float64)
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


def _times(values: Values, rows: Int64Array, origin: Origin) -> Int64Array:
    """Times as int64: dates and numbers go by their type, everything else is read as text."""
    chosen = values[rows]
    if chosen.dtype.kind == "M":
        return chosen.astype("datetime64[us]").astype(np.int64)
    if {type(value) for value in chosen.tolist()} <= {int, float}:
        chosen = np.array(chosen.tolist())  # objects, or unsigned
    if chosen.dtype.kind == "i":
        return of_one_unit(chosen.astype(np.int64), rows, origin)
    keeps_the_unit = False
    if chosen.dtype.kind == "f":
        seconds = chosen * 1e6
        unread = ~(np.abs(seconds) < 2.0**63)
        times = np.rint(np.where(unread, 0, seconds)).astype(np.int64)
    else:
        texts = [None if value is None else str(value) for value in chosen.tolist()]
        times, unread, reading = times_of_text(texts)
        keeps_the_unit = reading in KEEP_THE_UNIT
    if unread.any():
        row = int(unread.argmax())
        raise unreadable_time_error(origin, int(rows[row]), values[rows].tolist()[row])
    return of_one_unit(times, rows, origin) if keeps_the_unit else times
