"""A table in DuckDB, encoded beside it.

The rows are loaded once. DuckDB finds the distinct ids, and only those become Python objects;
meanwhile the rows become two int32 codes by a hash of each id (`cerp.data.formats.hash_codes`).
Where two ids share a hash there are fewer codes than ids; should that ever happen, DuckDB joins
the rows to the ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.formats.columns import (
    SIDES,
    Column,
    Origin,
    Roles,
    Wanted,
    unreadable_rating_error,
    unusable_weight_error,
)
from cerp.data.formats.duckdb_memory import Database, ScanError
from cerp.data.formats.hash_codes import codes_of
from cerp.data.formats.times import (
    KEEP_THE_UNIT,
    MILLISECONDS_RANGE,
    SECONDS_RANGE,
    TEXT_READINGS,
    mixed_units_error,
    unreadable_time_error,
)
from cerp.data.formats.vocabulary import Vocabulary, coded_in_native_order
from cerp.data.gathering import Gathering
from cerp.data.ids import Ids, Int32Array
from cerp.data.interactions import Interactions
from cerp.data.sorting import LONG_STRETCH, counts_of
from cerp.data.source_facts import MOST_EVENTS, SourceFacts, is_event_name, mixed_events
from cerp.errors import ConfigError

HASH = "hash({})"
"""Of an id, as 64 bits without a sign."""

MANY_ROWS = 1 << 24
"""Beyond so many, what has been read of the table is let go at once, and nothing is done beside
something else: the less memory is worth more than the seconds."""
BESIDE_PAIRS: Mapping[str, tuple[str, npt.DTypeLike]] = {
    "time": ("time", np.int64),
    "weight": ("weight::double", np.float64),
}
"""Role -> expression and type of what a row has beside its ids."""


@dataclass(frozen=True)
class Scan:
    """What to read, in SQL."""

    table: str
    given: Mapping[str, Any]
    """Values of the parameters in ``table``."""
    columns: Mapping[str, str]
    """Role -> expression: user, item and, where there are such, rating, time and weight."""
    time_readings: Sequence[str]
    """Which readings of a time to try, and in what order."""
    is_text: bool
    """Whether the columns are without types."""
    where: str | None = None
    """Which rows to keep, besides those that ``min_rating`` does."""
    ids: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(SIDES, "{0}"))
    """How a distinct value of each side becomes an id, one to one; NULL where it is none."""


def read_scan(database: Database, scan: Scan, wanted: Wanted, origin: Origin) -> Interactions:
    """The interactions in a scan."""
    kept = "true" if scan.where is None else "is_kept"
    if wanted.min_rating is not None:
        kept = f"{kept} and try_cast(rating as double) >= '{float(wanted.min_rating)}'::double"
    _load(database, scan, kept, origin)
    if wanted.min_rating is not None:
        _refuse_bad_ratings(database, origin)
    if "weight" in scan.columns:
        _refuse_bad_weights(database, kept, origin)
    ((rows, count),) = database.rows(f"select count(*), count(*) filter ({kept}) from loaded")
    with ThreadPoolExecutor(1) as beside:
        sides = []
        for side in SIDES:
            # One side after the other, and no name for the hashes: they go when they are coded.
            hashes = _column(database, HASH.format(side), kept, np.uint64, rows, count)
            coding = beside.submit(codes_of, hashes)
            del hashes
            if rows > MANY_ROWS:
                coding.exception()  # waits for it: what both need would be there at once
            vocabulary = _vocabulary(database, scan, side, kept)
            codes = coding.result()
            del coding  # which has the codes too
            if codes.max(initial=-1) + 1 != len(vocabulary.values):
                codes = _codes_by_id(database, side, kept)
            ordered = coded_in_native_order(
                vocabulary,
                codes,
                side,
                origin,
                is_text=scan.is_text,
                as_strings=wanted.ids == "string",
            )
            sides.append(ordered)
            del vocabulary, codes, ordered
            if rows > MANY_ROWS:
                database.rows(f'alter table loaded drop column "{side}"')
                database.hand_back()
        (users, user), (items, item) = sides
        del sides
        gathering = _gathered(database, scan, kept, rows, (user, item), (users, items))
        del user, item
        emptying = beside.submit(_empty, database, rows)
        data = Interactions.from_gathered(gathering, users=users, items=items)
        emptying.result()
    return replace(data, source=SourceFacts(origin.name, rows, rows - count))


def with_columns(
    data: Interactions, names: Sequence[Column], roles: Roles, warnings: Iterable[str] = ()
) -> Interactions:
    """The same, saying which columns were read and which were not, and what is odd about that."""
    assert data.source is not None
    read = {position for _, position in roles.present()}
    source = replace(
        data.source,
        columns={role: names[position] for role, position in roles.present()},
        ignored=tuple(name for k, name in enumerate(names) if k not in read),
        has_header=isinstance(names[0], str),
        warnings=(*data.source.warnings, *warnings),
    )
    return replace(data, source=source)


def ignored_events(names: Sequence[Column], roles: Roles) -> list[int]:
    """The columns that say what happened, and are not read."""
    read = {position for _, position in roles.present()}
    return [k for k, name in enumerate(names) if k not in read and is_event_name(str(name))]


def event_warnings(
    database: Database,
    scan: Scan,
    names: Sequence[Column],
    expressions: Sequence[str],
    roles: Roles,
) -> Iterator[str]:
    """What is odd about columns that say what happened, and are not read."""
    for position in ignored_events(names, roles):
        counts = database.rows(
            f"select {expressions[position]}, count(*) from {scan.table} "
            f"group by 1 order by 2 desc, 1 limit {MOST_EVENTS + 1}",
            scan.given,
        )
        if scan.where is None and 1 < len(counts) <= MOST_EVENTS:
            yield mixed_events(str(names[position]), counts)


def times_of_text(
    texts: Sequence[str | None],
    readings: Sequence[str] = TEXT_READINGS,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], str]:
    """Times, which texts are none, and the reading that reads the most."""
    with Database() as database:
        database.rows(
            "create temp table given as select unnest($texts::varchar[]) as text",
            {"texts": list(texts)},
        )
        counts = ", ".join(f"count({reading.format('text')})" for reading in readings)
        (read,) = database.rows(f"select {counts} from given")
        reading = readings[int(np.argmax(read))]
        found = database.arrays(
            f"select {reading.format('text')} as time from given order by rowid"
        )["time"]
    return np.ma.getdata(found), np.ma.getmaskarray(found), reading


def _load(database: Database, scan: Scan, kept: str, origin: Origin) -> None:
    """Fill the table ``loaded``: the columns, and the time read."""
    failures: list[tuple[int, int]] = []
    if scan.where is not None:
        _refuse_condition(database, scan, origin)
    for reading in scan.time_readings or ("{0}",):
        columns = dict(scan.columns)
        if "time" in columns:
            columns["time"] = reading.format(columns["time"])
        if scan.where is not None:
            columns["is_kept"] = f"coalesce(({scan.where}), false)"
        chosen = ", ".join(f'{sql} as "{name}"' for name, sql in columns.items())
        database.rows(
            f"create or replace temp table loaded as select {chosen} from {scan.table}", scan.given
        )
        if "time" not in columns:
            return
        ((unread, row),) = database.rows(
            f"select count(*), min(rowid) from loaded where {kept} and time is null"
        )
        if unread == 0:
            if reading in KEEP_THE_UNIT:
                _refuse_mixed_units(database, kept, origin)
            return
        failures.append((unread, row))
    row = min(failures)[1]
    ((value,),) = database.rows(
        f"select {scan.columns['time']} from {scan.table} limit 1 offset {row}", scan.given
    )
    raise unreadable_time_error(origin, row, value)


def _refuse_condition(database: Database, scan: Scan, origin: Origin) -> None:
    """Refuse a condition that these columns cannot answer, with what DuckDB says of it."""
    database.rows(f"select count(*) from {scan.table}", scan.given)  # the source itself is sound
    try:
        database.rows(
            f"select count(*) from {scan.table} where coalesce(({scan.where}), false)", scan.given
        )
    except ScanError as error:
        raise condition_error(str(scan.where), error, origin) from None


def condition_error(where: str, error: ScanError, origin: Origin) -> ConfigError:
    """The error for a condition that DuckDB cannot apply."""
    return ConfigError(
        f"{origin.name}: where={where!r} cannot be applied ({error}); write a condition in SQL "
        "over its columns, such as event = 'purchase'"
    )


def _refuse_mixed_units(database: Database, kept: str, origin: Origin) -> None:
    (least, below), (above, most) = SECONDS_RANGE, MILLISECONDS_RANGE
    ((last,),) = database.rows(f"select max(time) from loaded where {kept}")
    if last is None or last < above:
        return
    ((seconds, between, milliseconds),) = database.rows(
        f"select min(rowid) filter (time between {least} and {below}), "
        f"count(*) filter (time > {below} and time < {above}), "
        f"min(rowid) filter (time between {above} and {most}) from loaded where {kept}"
    )
    if seconds is not None and milliseconds is not None and not between:
        raise mixed_units_error(origin, seconds, milliseconds)


def _vocabulary(database: Database, scan: Scan, side: str, kept: str) -> Vocabulary:
    """The distinct ids of one side, by first appearance."""
    columns = database.arrays(
        f"select {scan.ids[side].format('value')} as value, first_row from "
        f'(select "{side}" as value, min(rowid) as first_row from loaded where {kept} group by 1) '
        "order by first_row"
    )
    values = columns["value"]
    if isinstance(values, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(values)
        values = values.data.astype(object)
        values[missing] = None
    return Vocabulary(values, columns["first_row"])


def _stretches(
    database: Database, columns: Mapping[str, str], kept: str, rows: int
) -> Iterator[dict[str, Any]]:
    """Expressions of the rows that are kept, in their order, a stretch at a time.

    DuckDB holds a result twice before it is one array.
    """
    chosen = ", ".join(f"{sql} as {name}" for name, sql in columns.items())
    for start in range(0, rows, LONG_STRETCH):
        yield database.arrays(
            f"select {chosen} from loaded "
            f"where rowid >= {start} and rowid < {start + LONG_STRETCH} and {kept}"
        )


def _column(
    database: Database, sql: str, kept: str, dtype: npt.DTypeLike, rows: int, count: int
) -> npt.NDArray[Any]:
    """One value of each of the ``count`` rows that are kept, in the order of rows."""
    values = np.empty(count, dtype=dtype)
    filled = 0
    for stretch in _stretches(database, {"value": sql}, kept, rows):
        found = stretch["value"]
        values[filled : filled + len(found)] = found
        filled += len(found)
    return values


def _gathered(
    database: Database,
    scan: Scan,
    kept: str,
    rows: int,
    codes: tuple[Int32Array, Int32Array],
    ids: tuple[Ids, Ids],
) -> Gathering:
    """The rows that are kept as codes, with what is beside them, which is never held apart."""
    user, item = codes
    users, items = ids
    columns = {role: sql for role, (sql, _) in BESIDE_PAIRS.items() if role in scan.columns}
    times = None
    if "time" in columns:
        ((least, most),) = database.rows(f"select min(time), max(time) from loaded where {kept}")
        times = (least or 0, most or 0)  # of no row there is none
    gathering = Gathering(
        len(users),
        len(items),
        len(user),
        lambda: counts_of(user, len(users)),
        times=times,
        weighted="weight" in columns,
    )
    filled = 0
    # At least a number that says how many rows of the stretch are kept.
    for stretch in _stretches(database, columns or {"kept": "true"}, kept, rows):
        part = slice(filled, filled + len(next(iter(stretch.values()))))
        beside = {role: stretch[role].astype(BESIDE_PAIRS[role][1], copy=False) for role in columns}
        gathering.add(user[part], item[part], **beside)
        filled = part.stop
    return gathering


def _empty(database: Database, rows: int) -> None:
    """Forget the table."""
    database.rows("drop table loaded")
    if rows > MANY_ROWS:
        database.hand_back()


def _codes_by_id(database: Database, side: str, kept: str) -> Int32Array:
    """What `codes_of` gives, where two ids have one hash."""
    return database.arrays(  # type: ignore[no-any-return]
        f'with ids as (select "{side}" as id, min(rowid) as first_row from loaded where {kept} '
        "group by 1), numbered as (select id, (row_number() over (order by first_row) - 1)::int "
        "as code from ids) select code from loaded join numbered "
        f'on "{side}" is not distinct from id where {kept} order by loaded.rowid'
    )["code"]


def _refuse_bad_ratings(database: Database, origin: Origin) -> None:
    for row, value in database.rows(
        "select rowid, rating::varchar from loaded "
        "where not coalesce(isfinite(try_cast(rating as double)), false) order by rowid limit 1"
    ):
        raise unreadable_rating_error(origin, row, value)


def _refuse_bad_weights(database: Database, kept: str, origin: Origin) -> None:
    number = "try_cast(weight as double)"
    for row, value in database.rows(
        f"select rowid, weight::varchar from loaded where {kept} "
        f"and not coalesce({number} > 0 and isfinite({number}), false) order by rowid limit 1"
    ):
        raise unusable_weight_error(origin, row, value)
