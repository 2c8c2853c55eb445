"""When something happened, as one int64 per row.

A whole number keeps the unit it is in; seconds with a fraction and ISO 8601 become microseconds.
All times of a column are of one kind: the first reading that applies to every row counts.
DuckDB reads text, whether it comes from a file or from a column in memory, so that the same
text means the same time in both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerp.data.formats.columns import Origin, Wanted
from cerp.data.formats.text_files import BLANKS
from cerp.errors import DataError

# Readings of a time as a BIGINT, each NULL where it does not apply.
WHOLE_NUMBER = "try_cast({0} as bigint)"
SECONDS = "try_cast(round(try_cast({0} as double) * 1e6) as bigint)"
INSTANT = (
    "case when isfinite(try_cast({0} as timestamptz))"
    " then epoch_us(try_cast({0} as timestamptz)) end"
)
# A bare cast of a column of text would move into DuckDB's CSV reader, and fail there.
WHOLE_NUMBER_TEXT = "case when not contains({0}, '.') then try_cast({0} as bigint) end"
TRIMMED = f"trim({{0}}, '{BLANKS}')"
SECONDS_TEXT = SECONDS.format(TRIMMED)
INSTANT_TEXT = INSTANT.format(TRIMMED)

TEXT_READINGS = (WHOLE_NUMBER_TEXT, SECONDS_TEXT, INSTANT_TEXT)
"""Of a column of text, in the order in which they are tried."""
INSTANT_FIRST = (INSTANT_TEXT, WHOLE_NUMBER_TEXT, SECONDS_TEXT)
"""Where the first texts hold no number: most columns then need to be read once only."""


def time_readings(wanted: Wanted, readings: tuple[str, ...]) -> tuple[str, ...]:
    """The readings to try: the format that the caller knows, else those that fit the column."""
    if wanted.time_format is None:
        return readings
    written = wanted.time_format.replace("'", "''").replace("{", "{{").replace("}", "}}")
    return (f"epoch_us(try_strptime({TRIMMED.format('({0})::varchar')}, '{written}'))",)


KEEP_THE_UNIT = (WHOLE_NUMBER, WHOLE_NUMBER_TEXT)
"""Readings whose unit is not known."""

# The years 1985 to 2128 since 1970. A column of whole numbers in both ranges, and none between
# them, is in two units.
SECONDS_RANGE = (5 * 10**8, 5 * 10**9)
MILLISECONDS_RANGE = (5 * 10**11, 5 * 10**12)


def of_one_unit(
    times: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], origin: Origin
) -> npt.NDArray[np.int64]:
    """The times as they are; an error if some look like seconds and others like milliseconds."""
    (least, below), (above, most) = SECONDS_RANGE, MILLISECONDS_RANGE
    seconds = (least <= times) & (times <= below)
    milliseconds = (above <= times) & (times <= most)
    between = (below < times) & (times < above)
    if seconds.any() and milliseconds.any() and not between.any():
        raise mixed_units_error(
            origin, int(rows[seconds.argmax()]), int(rows[milliseconds.argmax()])
        )
    return times


def unreadable_time_error(origin: Origin, row: int, value: object) -> DataError:
    """The error for a time that is missing or of another kind than the rest."""
    return DataError(
        f"{origin.at(row)}: the time {value!r} cannot be read; times are all whole numbers, all "
        "seconds with a fraction, or all ISO 8601, or written as time_format= says (such as "
        "%d.%m.%Y for 31.12.2024); time=False reads without times"
    )


def mixed_units_error(origin: Origin, seconds: int, milliseconds: int) -> DataError:
    """The error for times in two units, with the first row of each."""
    return DataError(
        f"{origin.name}: the time in {origin.locate(seconds)} looks like seconds, that in "
        f"{origin.locate(milliseconds)} like milliseconds; convert them to one unit; "
        "time=False reads without times"
    )
