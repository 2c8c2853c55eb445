"""What was read from a source: which columns, how many rows, and what looks odd."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

EVENT_NAMES = {
    *("event", "eventtype", "eventname", "action", "actiontype", "behavior", "behaviour"),
    *("behaviortype", "behaviourtype", "interactiontype", "activity", "activitytype"),
}
"""Columns that say what happened; compared without case, ``_`` and ``-``."""
MOST_EVENTS = 12
"""A column with more values than this does not tell kinds of events apart."""
IS_A_SALE = re.compile(r"purchase|order|buy|bought|sale|transaction", re.IGNORECASE)
"""The kind of event that most shops train on."""
FLOAT_ID = re.compile(r"\d+\.0")
"""What a spreadsheet or pandas makes of an integer beside an empty cell."""

UNITS_PER_SECOND = (1, 10**3, 10**6, 10**9)
SECONDS_RANGE = (10**8, 10**10)
"""From 1973 to 2286: times within it, in one of these units, are dates."""


@dataclass(frozen=True)
class SourceFacts:
    """How interactions came out of their source."""

    name: str
    rows: int
    """Rows of the source."""
    left_out: int = 0
    """Rows that a condition or a least rating left out."""
    columns: Mapping[str, str | int] = field(default_factory=dict)
    """Role -> the column that was read for it."""
    ignored: tuple[str | int, ...] = ()
    """Columns that were not read."""
    has_header: bool | None = None
    """Whether the columns have names; None where that is no question."""
    warnings: tuple[str, ...] = ()
    """What is odd, and what to do about it."""


def is_event_name(name: str) -> bool:
    """Whether a column of this name says what happened."""
    return re.sub(r"[\s_\-.]", "", name).lower() in EVENT_NAMES


def mixed_events(name: str, counts: Sequence[tuple[Any, int]]) -> str:
    """What to say of a column that tells several kinds of events, all of which were read alike."""
    told = ", ".join(f"{value} ({count:,})" for value, count in counts)
    kinds = [str(value) for value, _ in counts]
    one = next(filter(IS_A_SALE.search, kinds), kinds[-1]).replace("'", "''")
    return (
        f"the column {name!r} mixes {told}, and all rows were read alike; keep one kind with "
        f"where=\"{name} = '{one}'\""
    )


def odd_ids(side: str, ids: npt.NDArray[Any], rows: int) -> str | None:
    """What to say of ids that are hardly what the caller means by them."""
    if len(ids) == rows > 100:
        return (
            f"each of the {rows:,} rows has a {side} of its own: that column counts rows, as the "
            f"index of a data frame does; choose another with {side}="
        )
    if ids.dtype.kind == "O" and len(ids) and all(map(FLOAT_ID.fullmatch, ids.tolist())):
        return (
            f"{side} ids such as {ids[0]!r} are kept as text; whoever wrote the file took "
            "integers for floats, and other files will have them without '.0'"
        )
    return None


def is_index(name: str | int) -> bool:
    """Whether a column that was not read is what pandas writes for its index."""
    return name == "" or str(name).startswith("Unnamed: 0")


def times_in_words(times: npt.NDArray[np.int64]) -> str:
    """From when to when, as dates where the numbers can be such."""
    first, last = int(times.min()), int(times.max())
    for unit in UNITS_PER_SECOND:
        least, most = (bound * unit for bound in SECONDS_RANGE)
        if least <= first and last <= most:
            days = [datetime.fromtimestamp(time / unit, tz=UTC).date() for time in (first, last)]
            return f"{days[0]} to {days[1]}"
    return f"{first:,} to {last:,}, which are no dates"
