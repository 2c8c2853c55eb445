"""From the distinct values of a column to ids in native order.

Whether ids are integers or strings is decided here, on the distinct values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.data.formats.columns import Origin
from cerp.data.formats.text_files import BLANKS
from cerp.data.ids import LONGEST_ID, Ids, Int32Array, Int64Array, flaw_of
from cerp.data.sorting import LONG_STRETCH
from cerp.errors import DataError

CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
"""Text that an integer prints as: 007, +7 and 7.0 are not 7."""

LARGEST_ID = 2**63 - 5
"""What a model file can hold (`cerp.artifact.numbers`): better refused before training."""
LONG_INTEGER = 40
"""So many characters are always beyond it."""
KEEP_AS_TEXT = 'ids="string" keeps such ids as text'


@dataclass(frozen=True)
class Vocabulary:
    """The distinct values of an id column, in any order."""

    values: npt.NDArray[Any]
    """Integers, or an object array of strings (None: the id is missing)."""
    first_rows: Int64Array
    """The row, from 0, in which each value appears first."""


def native_order(
    vocabulary: Vocabulary,
    side: str,
    origin: Origin,
    *,
    is_text: bool,
    as_strings: bool,
) -> tuple[Ids, Int32Array]:
    """Ids of one side in numeric order, else by first appearance; and the place of each value.

    ``is_text`` says that the source has no types: blanks around a value are no
    part of it, and the text of an integer is an integer, provided that every id
    of the column is one.
    """
    if is_text:
        vocabulary, place = _trimmed(vocabulary)
    else:
        place = np.arange(len(vocabulary.values), dtype=np.int32)
    values = vocabulary.values
    are_strings = as_strings
    if values.dtype.kind == "O":
        _refuse_missing(vocabulary, side, origin)
        if is_text and not as_strings and all(map(CANONICAL_INTEGER.fullmatch, values)):
            # Cut where it is out of range anyway: Python refuses to parse very long numbers.
            values = np.array([int(value[:LONG_INTEGER]) for value in values], dtype=object)
        are_strings = as_strings or any(isinstance(value, str) for value in values[:1])
    if are_strings:
        _refuse_flaws(vocabulary, side, origin)
        firsts = vocabulary.first_rows
        if not (firsts[1:] > firsts[:-1]).all():  # often they are in order
            order = np.argsort(firsts)
            values = values[order]
        else:
            order = np.arange(len(firsts))
        ids = Ids(values.astype(object))
    else:
        _refuse_out_of_range(values, vocabulary, side, origin)
        values = values.astype(np.int64)
        order = np.argsort(values)
        ids = Ids(values[order])
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return ids, rank[place]


def coded_in_native_order(
    vocabulary: Vocabulary,
    codes: Int32Array,
    side: str,
    origin: Origin,
    *,
    is_text: bool,
    as_strings: bool,
) -> tuple[Ids, Int32Array]:
    """Ids of one side in native order, and codes of the vocabulary's values as those of the ids.

    The codes are changed where they lie.
    """
    ids, rank = native_order(vocabulary, side, origin, is_text=is_text, as_strings=as_strings)
    if not np.array_equal(rank, np.arange(len(rank))):  # often it is the same
        for start in range(0, len(codes), LONG_STRETCH):
            stretch = codes[start : start + LONG_STRETCH]
            stretch[:] = rank[stretch]
    return ids, codes


def encode(
    values: npt.NDArray[Any], rows: Int64Array, side: str, origin: Origin
) -> tuple[Vocabulary, Int32Array]:
    """The distinct values of a typed column, over some of its rows, and those rows as codes."""
    chosen = values[rows]
    if values.dtype.kind in "iu":
        distinct, first, inverse = np.unique(chosen, return_index=True, return_inverse=True)
        return Vocabulary(distinct, rows[first]), inverse.astype(np.int32)
    if values.dtype.kind not in "OUT":
        raise DataError(
            f"{origin.name}: {side} ids are {values.dtype}; ids must be integers or strings "
            "(convert the column first)"
        )
    chosen = chosen.astype(object)
    _refuse_mixed_types(chosen, rows, side, origin)
    distinct, codes = _distinct(chosen)
    _, first = np.unique(codes, return_index=True)
    return Vocabulary(distinct, rows[first]), codes


def _trimmed(vocabulary: Vocabulary) -> tuple[Vocabulary, Int32Array]:
    """The values without blanks around them, and where each value went: some become equal."""
    values = vocabulary.values.tolist()
    together = _together(values)
    if not any(blank in together for blank in BLANKS):
        return vocabulary, np.arange(len(values), dtype=np.int32)
    trimmed = [value and value.strip(BLANKS) for value in values]
    if trimmed == values:
        return vocabulary, np.arange(len(values), dtype=np.int32)
    distinct, place = _distinct(trimmed)
    first_rows = np.full(len(distinct), np.iinfo(np.int64).max)
    np.minimum.at(first_rows, place, vocabulary.first_rows)
    return Vocabulary(distinct, first_rows), place


def _together(values: list[str | None]) -> str:
    """All texts in one, which is searched in a fraction of the time that each would take."""
    try:
        return "".join(values)  # type: ignore[arg-type]
    except TypeError:  # some are missing
        return "".join(filter(None, values))


def _distinct(values: Iterable[Any]) -> tuple[npt.NDArray[Any], Int32Array]:
    """Distinct values by first appearance, and all values as codes."""
    position: dict[Any, int] = {}
    codes: Int32Array = np.fromiter(
        (position.setdefault(value, len(position)) for value in values), np.int32
    )
    distinct = np.empty(len(position), dtype=object)
    distinct[:] = list(position)
    return distinct, codes


def _refuse_mixed_types(
    chosen: npt.NDArray[Any], rows: Int64Array, side: str, origin: Origin
) -> None:
    kinds = [type(value) for value in chosen]
    present = set(kinds)
    if type(None) in present:
        raise _missing_error(origin, int(rows[kinds.index(type(None))]), side)
    if present in (set(), {int}, {str}):
        return
    allowed = kinds[0] if kinds[0] in (int, str) else None
    odd = next(k for k, kind in enumerate(kinds) if kind is not allowed)
    raise DataError(
        f"{origin.at(int(rows[odd]))}: {side} id {chosen[odd]!r} is of type "
        f"{kinds[odd].__name__}; a column of ids must be all integers or all strings "
        "(convert it first)"
    )


def _refuse_missing(vocabulary: Vocabulary, side: str, origin: Origin) -> None:
    values = vocabulary.values.tolist()
    if all(values):
        return
    missing = [values.index(absent) for absent in (None, "") if absent in values]
    if missing:
        raise _missing_error(origin, int(vocabulary.first_rows[missing].min()), side)


def _refuse_flaws(vocabulary: Vocabulary, side: str, origin: Origin) -> None:
    values = vocabulary.values.tolist()
    if values and isinstance(values[0], str):  # and so all are
        together = "".join(values)
        if together.isascii() and "\0" not in together and max(map(len, values)) <= LONGEST_ID:
            return  # none has a flaw (`flaw_of`)
    for value, row in zip(values, vocabulary.first_rows, strict=True):
        if isinstance(value, str) and (flaw := flaw_of(value)):
            raise DataError(f"{origin.at(int(row))}: {side} id {value[:20]!r} {flaw}")


def _missing_error(origin: Origin, row: int, side: str) -> DataError:
    return DataError(f"{origin.at(row)}: the {side} id is missing; fill it in or remove the row")


def _refuse_out_of_range(
    values: npt.NDArray[Any], vocabulary: Vocabulary, side: str, origin: Origin
) -> None:
    for problem, bad in (
        ("is negative", values < 0),
        (f"is above {LARGEST_ID}, the largest integer id", values > LARGEST_ID),
    ):
        if bad.any():
            worst = np.flatnonzero(bad)[np.argmin(vocabulary.first_rows[bad])]
            place = origin.at(int(vocabulary.first_rows[worst]))
            raise DataError(f"{place}: {side} id {values[worst]} {problem}; {KEEP_AS_TEXT}")
