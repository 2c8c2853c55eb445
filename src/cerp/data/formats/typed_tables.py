"""Tables whose columns have types: Parquet, the result of a query, an Arrow stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cerp.data.formats.columns import Origin, Wanted, choose_columns
from cerp.data.formats.duckdb_memory import Database, quoted
from cerp.data.formats.duckdb_scan import Scan, event_warnings, read_scan, with_columns
from cerp.data.formats.times import INSTANT, SECONDS, TEXT_READINGS, WHOLE_NUMBER, time_readings
from cerp.data.interactions import Interactions
from cerp.errors import DataError

INTEGERS = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG")} | {
    "INTEGER",
    "UINTEGER",
}
TEXTS = {"VARCHAR", "UUID"}


def read_typed(
    database: Database, table: str, given: Mapping[str, Any], source: str, wanted: Wanted
) -> Interactions:
    """The interactions in a table, as SQL names it; ``source`` is its name in messages."""
    described = database.rows(f"describe select * from {table}", given)
    names, types = [row[0] for row in described], [row[1] for row in described]
    roles = choose_columns(names, wanted, source)
    columns = {role: quoted(names[position]) for role, position in roles.present()}
    for side, position in (("user", roles.user), ("item", roles.item)):
        columns[side] += _id_cast(types[position], names[position], side, source)
    readings = _time_readings(types[roles.time]) if roles.time is not None else ()
    scan = Scan(
        table,
        given,
        columns,
        time_readings(wanted, readings) if readings else (),
        is_text=False,
        where=wanted.where,
    )
    data = read_scan(database, scan, wanted, Origin(source))
    expressions = [quoted(name) for name in names]
    warnings = event_warnings(database, scan, names, expressions, roles)
    return with_columns(data, names, roles, warnings)


def _id_cast(kind: str, name: str, side: str, source: str) -> str:
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
