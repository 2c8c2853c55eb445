"""A table in DuckDB, encoded there.

The rows are loaded once, with a hash of each id; the distinct ids of each side are
grouped out of them and numbered, and a join turns every row into two int32 codes.
The join compares hashes, which is exact as long as no two ids share one: that is
checked, and where two do, it compares the ids. Only the distinct ids ever become
Python objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cerp.data.columns import Origin, Wanted, unreadable_rating, unreadable_time
from cerp.data.interactions import Interactions
from cerp.data.vocabulary import Vocabulary, in_native_order
from cerp.errors import DataError, MissingExtra

# Ways to read a time as a BIGINT, each NULL where it does not apply. A whole number keeps
# the unit it is in; a fraction (of seconds) and a date become microseconds.
WHOLE_NUMBER = "try_cast(time as bigint)"
SECONDS = "try_cast(round(try_cast(time as double) * 1e6) as bigint)"
INSTANT = (
    "case when isfinite(try_cast(time as timestamptz))"
    " then epoch_us(try_cast(time as timestamptz)) end"
)
TEXT_TIMES = (f"case when not contains(time, '.') then {WHOLE_NUMBER} end", SECONDS, INSTANT)

HASH = "hash"
SIDES = ("user", "item")


class Database:
    """A DuckDB database in memory: silent, in UTC, and off the network."""

    def __init__(self) -> None:
        try:
            import duckdb
        except ImportError:
            raise MissingExtra("Reading tables", "duckdb", "train") from None
        offline: dict[str, Any] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        self._connection: Any = duckdb.connect(":memory:", config=offline)
        self._error = duckdb.Error
        self.run("set enable_progress_bar = false")
        self.run("set timezone = 'UTC'")

    def run(self, sql: str, given: Mapping[str, Any] | None = None) -> Any:
        """The result of a statement; what DuckDB objects to is a DataError in its first words."""
        try:
            return self._connection.execute(sql, given)
        except self._error as error:
            raise DataError(str(error).partition("\n")[0]) from None

    def row(self, sql: str) -> Any:
        """The first row of a result, or None."""
        return self.run(sql).fetchone()

    def load(self, scan: str, given: Mapping[str, Any], columns: Mapping[str, str]) -> None:
        """Copy columns (role -> SQL expression) of a scan into the table ``loaded``."""
        chosen = [f'{sql} as "{role}"' for role, sql in columns.items()]
        chosen += [f"{HASH}({columns[side]}) as {side}_hash" for side in SIDES]
        self.run(f"create temp table loaded as select {', '.join(chosen)} from {scan}", given)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def encode_loaded(
    database: Database,
    wanted: Wanted,
    origin: Origin,
    time_readings: Sequence[str],
    *,
    is_text: bool,
) -> Interactions:
    """Interactions of the table ``loaded``; without time readings, without times."""
    kept = "true"
    if wanted.min_rating is not None:
        _refuse_bad_ratings(database, origin)
        kept = f"try_cast(rating as double) >= '{float(wanted.min_rating)}'::double"
    chosen = ["users.code as user_code", "items.code as item_code"]
    if time_readings:
        chosen.append(f"{_time_reading(database, time_readings, kept, origin)} as time")
    vocabularies = [_vocabulary(database, side, kept) for side in SIDES]
    joins = " ".join(_join(database, side) for side in SIDES)
    database.run("set preserve_insertion_order = false")  # Interactions sorts anyway
    rows = database.run(f"select {', '.join(chosen)} from loaded {joins} where {kept}").fetchnumpy()
    (users, user), (items, item) = (
        in_native_order(
            vocabulary,
            rows[f"{side}_code"],
            side,
            origin,
            is_text=is_text,
            as_strings=wanted.ids == "string",
        )
        for side, vocabulary in zip(SIDES, vocabularies, strict=True)
    )
    return Interactions.from_codes(user, item, users=users, items=items, time=rows.get("time"))


def _vocabulary(database: Database, side: str, kept: str) -> Vocabulary:
    """The distinct ids of one side, left in the table ``users`` or ``items`` with their codes."""
    database.run(
        f"create temp table {side}s as "
        f"select value, first_row, {HASH}(value) as hash, (row_number() over () - 1)::int as code from "
        f'(select "{side}" as value, min(rowid) as first_row from loaded where {kept} group by 1)'
    )
    columns = database.run(f"select value, first_row from {side}s order by code").fetchnumpy()
    values = columns["value"]
    if isinstance(values, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(values)
        values = values.data.astype(object)
        values[missing] = None
    return Vocabulary(values, columns["first_row"])


def _join(database: Database, side: str) -> str:
    (is_exact,) = database.row(f"select count(distinct hash) = count(*) from {side}s")
    ours, theirs = (f"{side}_hash", "hash") if is_exact else (f'"{side}"', "value")
    return f"join {side}s on loaded.{ours} = {side}s.{theirs}"


def _time_reading(database: Database, readings: Sequence[str], kept: str, origin: Origin) -> str:
    """The first reading that applies to every row; without one, the least bad names its row."""
    unread: dict[str, int] = {}
    for reading in readings:
        (unread[reading],) = database.row(
            f"select count(*) - count({reading}) from loaded where {kept}"
        )
        if unread[reading] == 0:
            return reading
    best = min(unread, key=lambda reading: unread[reading])
    row, value = database.row(
        "select rowid, time::varchar from loaded "
        f"where {kept} and {best} is null order by rowid limit 1"
    )
    raise unreadable_time(origin, row, value)


def _refuse_bad_ratings(database: Database, origin: Origin) -> None:
    bad = database.row(
        "select rowid, rating::varchar from loaded "
        "where not coalesce(isfinite(try_cast(rating as double)), false) order by rowid limit 1"
    )
    if bad is not None:
        raise unreadable_rating(origin, *bad)
