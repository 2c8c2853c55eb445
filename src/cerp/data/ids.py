"""`Ids`: the original ids of users or items, and their codes 0, 1, 2, ... in native order.

Native order is numeric for integer ids and first appearance for strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cerp.errors import DataError

Int32Array = npt.NDArray[np.int32]
Float32Array = npt.NDArray[np.float32]
Int64Array = npt.NDArray[np.int64]
Id = int | str
"""An original id, as the caller's data has it."""

MAX_ENTITIES = 2**31 - 1
"""Codes are int32."""
LONGEST_ID = 1000
"""Characters of a string id: what is longer is a text, and no request may carry it."""
NOT_DISTINCT = "the ids are not distinct"
INTEGER_TEXT = re.compile("0|[1-9][0-9]{0,18}")
"""The one way to write an integer id, which has 64 bits and no sign."""


class Ids:
    """The original ids of one side, in native order; position is the code.

    Integer ids are held as int64, strings as Python strings. Equal ids are
    refused: they would make one entity two.
    """

    __slots__ = ("__dict__", "values")

    values: npt.NDArray[Any]

    def __init__(self, values: npt.ArrayLike) -> None:
        array = np.asarray(values)
        if array.ndim != 1:
            raise DataError(f"ids must be one-dimensional, got shape {array.shape}")
        if array.dtype.kind in "iu":
            array = array.astype(np.int64)
        elif array.dtype.kind in "UOT":
            if set(map(type, array.tolist())) != {str}:
                array = np.array([str(value) for value in array], dtype=object)
            array = array.astype(object)
        elif array.size:
            raise DataError(f"ids must be integers or strings, got {array.dtype}")
        if len(array) > MAX_ENTITIES:
            raise DataError(f"{len(array):,} ids; at most {MAX_ENTITIES:,} fit into int32")
        array.flags.writeable = False
        self.values = array

    @classmethod
    def range(cls, count: int) -> Ids:
        """The ids 0, 1, ..., count-1, for data that is numbered already."""
        return cls(np.arange(count, dtype=np.int64))

    @classmethod
    def in_native_order(cls, values: npt.ArrayLike) -> tuple[Ids, Int32Array]:
        """The distinct ids of a column in native order, and the column as codes."""
        array = np.asarray(values)
        if array.dtype.kind in "iu":
            distinct, inverse = np.unique(array, return_inverse=True)
            return cls(distinct), inverse.astype(np.int32)
        position: dict[str, int] = {}
        codes: Int32Array = np.fromiter(
            (position.setdefault(value, len(position)) for value in array.tolist()),
            dtype=np.int32,
            count=len(array),
        )
        return cls(np.array(list(position), dtype=object)), codes

    @property
    def are_integers(self) -> bool:
        """Whether the original ids are integers (otherwise they are strings)."""
        return self.values.dtype.kind == "i"

    @property
    def is_range(self) -> bool:
        """Whether the ids are exactly 0..n-1, so that no map needs to be stored."""
        return self.are_integers and np.array_equal(self.values, np.arange(len(self.values)))

    @cached_property
    def _position(self) -> dict[Id, int]:
        """The code of each string."""
        position = {value: code for code, value in enumerate(self.values.tolist())}
        if len(position) != len(self.values):
            raise DataError(NOT_DISTINCT)
        return position

    @cached_property
    def _ascending(self) -> tuple[Int64Array, Int64Array | None]:
        """The integers in order, and the code of each where the codes are in another order.

        They are searched by halving: a dictionary would take a hundred bytes an id.
        """
        values = self.values
        if (values[1:] > values[:-1]).all():
            return values, None
        codes = np.argsort(values)
        values = values[codes]
        if (values[1:] == values[:-1]).any():
            raise DataError(NOT_DISTINCT)
        return values, codes

    def _find(self, asked: Sequence[Any]) -> Int64Array:
        """The codes of ids, -1 where there is no such id."""
        if not self.are_integers:
            return np.array([self._position.get(value, -1) for value in asked], dtype=np.int64)
        values, codes = self._ascending
        integers = [_integer(one) for one in asked]
        numbers = np.array([one or 0 for one in integers], dtype=np.int64)
        places = np.searchsorted(values, numbers)
        known = np.array([one is not None for one in integers], dtype=bool)
        known &= places < len(values)
        known[known] = values[places[known]] == numbers[known]
        found = np.full(len(numbers), -1)
        found[known] = places[known] if codes is None else codes[places[known]]
        return found

    def encode(self, ids: Iterable[Id], *, what: str = "id") -> Int32Array:
        """Codes of original ids; an unknown id is an error that names it."""
        asked = list(ids)
        codes = self._find(asked)
        if (codes < 0).any():
            unknown = asked[int(np.argmax(codes < 0))]
            hint = ""
            if isinstance(unknown, str) == self.are_integers:
                kind = "integers" if self.are_integers else "strings"
                hint = f" (ids here are {kind}; {unknown!r} is a {type(unknown).__name__})"
            raise DataError(
                f"unknown {what} {unknown!r}{hint}; only ids of the training data are known"
            )
        return codes.astype(np.int32)

    def known(self, ids: Sequence[Id]) -> npt.NDArray[np.bool_]:
        """Which of some ids are among these."""
        return self._find(ids) >= 0

    def __contains__(self, value: Id) -> bool:
        return bool(self.known([value])[0])

    def of_kind(self, given: Id) -> Id:
        """An id that may have come as text, as an integer where the ids here are integers.

        Text that is not how such a number is written (``"x7"``, ``"07"``) stays
        as it is, and `encode` will name it.
        """
        if self.are_integers and isinstance(given, str) and INTEGER_TEXT.fullmatch(given):
            return int(given)
        return given

    def decode(self, codes: npt.ArrayLike) -> list[Id]:
        """Original ids of codes."""
        wanted = np.asarray(codes)
        # An empty list is an array of floats, by which nothing can be looked up.
        return self.values[wanted].tolist() if wanted.size else []

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "integer" if self.are_integers else "string"
        return f"Ids({len(self):,} {kind}s)"


def _integer(asked: object) -> int | None:
    """What is asked for as an integer of 64 bits, where it is one: 7, also as 7.0 or NumPy's."""
    if isinstance(asked, int | np.integer) or (isinstance(asked, float) and asked.is_integer()):
        number = int(asked)
        return number if -(2**63) <= number < 2**63 else None
    return None


def flaw_of(text: str) -> str | None:
    """Why a string cannot be an id, or None."""
    if len(text) > LONGEST_ID:
        return f"has {len(text):,} characters; an id has at most {LONGEST_ID:,}"
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        return "holds half a surrogate pair, which is no character"
    return "holds the character NUL" if "\0" in text else None


def id_column(column: npt.ArrayLike | Sequence[Id], name: str) -> npt.NDArray[Any]:
    """A column of ids as an int64 or object array; anything else is refused by name."""
    array = np.asarray(column)
    if array.dtype.kind in "iu":
        if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
            raise DataError(
                f"{name} id {array.max()} does not fit into 64 bits; "
                "convert the column to strings to keep it"
            )
        if array.size and array.min() < 0:
            row = int(np.argmax(array < 0))
            raise DataError(
                f"{name} id {array[row]} in row {row + 1} is negative; "
                "integer ids start at 0 (convert the column to strings to keep it)"
            )
        return array.astype(np.int64)
    if array.dtype.kind == "U" and not isinstance(column, np.ndarray):
        # np.asarray turns [1, "a"] into strings without a word: look at the originals.
        array = np.array(list(column), dtype=object)  # type: ignore[arg-type]
    if array.dtype.kind in "UT":
        array = array.astype(object)
    if array.dtype.kind != "O":
        raise DataError(
            f"{name} ids are {array.dtype}; ids must be integers or strings "
            "(convert the column first)"
        )
    kinds = {type(value) for value in array.tolist()}
    if kinds <= {int}:
        try:
            return id_column(array.astype(np.int64), name)
        except OverflowError:
            raise DataError(
                f"a {name} id does not fit into 64 bits; convert the column to strings to keep it"
            ) from None
    for row, value in enumerate(array.tolist(), start=1):
        if value is None or value != value or value == "":
            raise DataError(f"{name} id in row {row} is missing")
        if not isinstance(value, str):
            raise DataError(
                f"{name} ids mix types: row {row} holds {value!r} ({type(value).__name__}); "
                "convert the column to strings"
            )
        if flaw := flaw_of(value):
            raise DataError(f"{name} id {value[:20]!r} in row {row} {flaw}")
    return array


def union_of(sides: list[Ids], what: str) -> tuple[Ids, list[npt.NDArray[np.int32]]]:
    """One id space over several, and for each the map from its codes to the new ones."""
    if all(side is sides[0] for side in sides):
        same = np.arange(len(sides[0]), dtype=np.int32)
        return sides[0], [same] * len(sides)
    if len({side.are_integers for side in sides if len(side)}) > 1:
        raise DataError(f"{what} ids are integers in one part and strings in another")
    ids, codes = Ids.in_native_order(np.concatenate([side.values for side in sides]))
    return ids, np.split(codes, np.cumsum([len(side) for side in sides])[:-1])
