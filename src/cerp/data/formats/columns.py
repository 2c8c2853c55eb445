"""Which column of a table is the user, the item, the rating, the time and the weight."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from cerp.errors import ColumnsError, ConfigError, DataError

Column = str | int
"""A column by name, or by position from 0."""

# A name of an earlier group wins over one of a later group. Two names of one group
# in one table are a question for the caller. Compared without case, "_" and "-".
USER_NAMES = (
    {"user", "userid", "uid"},
    {"visitorid", "customerid", "customer", "reviewerid", "memberid", "accountid", "profileid"},
)
ITEM_NAMES = (
    {"item", "itemid", "iid"},
    {"movieid", "movie", "productid", "product", "asin", "businessid", "trackid", "songid"}
    | {"artistid", "bookid", "isbn", "animeid", "gameid", "articleid", "newsid", "videoid"}
    | {"recipeid", "poiid", "locationid", "venueid", "contentid", "sku", "stockcode"},
)
RATING_NAMES = ({"rating"}, {"ratings", "score", "stars", "overall", "bookrating"})
TIME_NAMES = (
    {"timestamp", "unixreviewtime"},
    {"time", "datetime", "date", "ts", "unixtime", "createdat", "reviewtime"},
)
TITLE_NAMES = (
    {"title", "name"},
    {"movietitle", "itemname", "productname", "booktitle", "trackname", "artistname"},
)

SIDES = ("user", "item")
POSITIONS = {"user": 0, "item": 1, "rating": 2, "time": 3}
"""What the columns of interactions without names are."""


@dataclass(frozen=True)
class Wanted:
    """What a caller of `cerp.read` asked of a table."""

    user: Column | None = None
    item: Column | None = None
    rating: Column | None = None
    time: Column | Literal[False] | None = None
    min_rating: float | None = None
    ids: Literal["string"] | None = None
    where: str | None = None
    """Which rows to keep: a condition in SQL over the columns of the source."""
    time_format: str | None = None
    """How times are written, such as ``%d.%m.%Y``."""
    decimal: Literal[","] | None = None
    """What stands before the fraction of a number in text, where it is no point."""
    weight: Column | None = None

    def __post_init__(self) -> None:
        if self.ids not in (None, "string"):
            raise ConfigError(f'ids={self.ids!r}: ids is "string" or left out')
        if self.decimal not in (None, ","):
            raise ConfigError(f"decimal={self.decimal!r}: decimal is ',' or left out")
        if self.min_rating is not None and not math.isfinite(self.min_rating):
            raise ConfigError(
                f"min_rating={self.min_rating} cannot be compared with ratings; "
                "give a number, or leave it out to keep every row"
            )

    def given(self) -> set[str]:
        """The names of what was asked for."""
        return {
            name for name, value in vars(self).items() if value is not None and value is not False
        }


@dataclass(frozen=True)
class Roles:
    """Positions of the columns that are read; rating only where it is filtered on."""

    user: int
    item: int
    rating: int | None
    time: int | None
    weight: int | None = None
    """Only where it was asked for."""

    def present(self) -> list[tuple[str, int]]:
        """(role, position) of the columns that are there."""
        return [(role, k) for role, k in vars(self).items() if k is not None]


@dataclass(frozen=True)
class Origin:
    """Where rows come from, for messages."""

    name: str
    locate: Callable[[int], str] = lambda row: f"row {row + 1}"
    """'line 7' or 'row 7' of a row counted from 0."""

    def at(self, row: int) -> str:
        """The start of a message about one row."""
        return f"{self.name}, {self.locate(row)}"


def choose_columns(
    columns: Sequence[Column],
    wanted: Wanted,
    source: str,
    *,
    numeric: Collection[int] | None = None,
) -> Roles:
    """The role of each column: as asked, else by a recognised name.

    ``numeric`` is given for a table without names, whose columns are then user,
    item, rating and time by position, the last two only where they are numeric.
    """
    finder = _Finder(columns, source, numeric)
    user = finder.required("user", wanted.user, USER_NAMES)
    item = finder.required("item", wanted.item, ITEM_NAMES)
    if user == item:
        raise ConfigError(f"{source}: column {columns[user]!r} cannot be both user and item")
    rating = time = None
    if wanted.rating is not None or wanted.min_rating is not None:
        rating = finder.optional("rating", wanted.rating, RATING_NAMES, taken={user, item})
        if rating is None:
            raise ConfigError(
                f"{source}: min_rating needs a rating column; the columns are "
                f"{finder.present}; name it with rating="
            )
    if wanted.time is not False:
        time = finder.optional("time", wanted.time, TIME_NAMES, taken={user, item, rating})
    weight = finder.asked("weight", wanted.weight) if wanted.weight is not None else None
    return Roles(user, item, rating if wanted.min_rating is not None else None, time, weight)


def unreadable_rating_error(origin: Origin, row: int, value: object) -> DataError:
    """The error for a rating that min_rating cannot be compared with."""
    return DataError(f"{origin.at(row)}: the rating {value!r} is not a number")


def unusable_weight_error(origin: Origin, row: int, value: object) -> DataError:
    """The error for a weight that says nothing of how much a row counts."""
    return DataError(
        f"{origin.at(row)}: the weight {value!r} is not a positive number; correct it, or leave "
        'such rows out with a condition, such as where="n > 0"'
    )


def is_recognised(name: str, groups: Sequence[Collection[str]]) -> bool:
    """Whether a header name is one of those listed above."""
    return any(_plain(name) in names for names in groups)


def choose_title_columns(columns: Sequence[Column], source: str) -> tuple[int, int]:
    """The columns of item ids and titles: by recognised names, else the first two."""
    finder = _Finder(columns, source, None)
    item, title = finder.by_name("item", ITEM_NAMES), finder.by_name("title", TITLE_NAMES)
    return (item, title) if item is not None and title is not None else (0, 1)


class _Finder:
    def __init__(
        self, columns: Sequence[Column], source: str, numeric: Collection[int] | None
    ) -> None:
        self.columns, self.source, self.numeric = columns, source, numeric
        self.present = ", ".join(repr(column) for column in columns)

    def required(self, role: str, asked: Column | None, names: Sequence[Collection[str]]) -> int:
        found = self.asked(role, asked) if asked is not None else self._found(role, names)
        if found is None:
            raise ColumnsError(
                f"{self.source}: no column is recognised as the {role}; the columns are "
                f"{self.present}; choose one with {role}="
            )
        return found

    def optional(
        self,
        role: str,
        asked: Column | None,
        names: Sequence[Collection[str]],
        taken: Collection[int | None],
    ) -> int | None:
        if asked is not None:
            return self.asked(role, asked)
        found = self._found(role, names)
        return None if found in taken else found

    def asked(self, role: str, asked: Column) -> int:
        # As text, so that the "2" of a command line means position 2.
        for position, column in enumerate(self.columns):
            if str(column) == str(asked):
                return position
        if isinstance(asked, int) and 0 <= asked < len(self.columns):
            return asked
        raise DataError(
            f"{self.source}: {role}={asked!r} is not a column; the columns are {self.present}"
        )

    def _found(self, role: str, groups: Sequence[Collection[str]]) -> int | None:
        if self.numeric is not None:
            position = POSITIONS[role]
            is_there = position < len(self.columns)
            return position if is_there and (position < 2 or position in self.numeric) else None
        return self.by_name(role, groups)

    def by_name(self, role: str, groups: Sequence[Collection[str]]) -> int | None:
        for names in groups:
            matches = [k for k, name in enumerate(self.columns) if _plain(str(name)) in names]
            if len(matches) > 1:
                several = " and ".join(repr(self.columns[k]) for k in matches)
                raise ColumnsError(
                    f"{self.source}: {several} could each be the {role}; choose one with {role}="
                )
            if matches:
                return matches[0]
        return None


def _plain(name: str) -> str:
    return re.sub(r"[\s_\-.]", "", name).lower()
