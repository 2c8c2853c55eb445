"""`Interactions`: who took what, checked once and then immutable.

Users and items are numbered from zero in *native order*: numeric for integer
ids, first appearance for strings. The original ids stay in an `Ids` on each
side, so that whatever leaves the library speaks the caller's language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cerp.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cerp.data.splits import Splits

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Id = int | str
"""An original id, as the caller's data has it."""

MAX_ENTITIES = 2**31 - 1
"""Codes are int32."""


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
        position = {value: code for code, value in enumerate(self.values.tolist())}
        if len(position) != len(self.values):
            raise DataError("the ids are not distinct")
        return position

    def encode(self, ids: Iterable[Id], *, what: str = "id") -> Int32Array:
        """Codes of original ids; an unknown id is an error that names it."""
        asked = list(ids)
        try:
            return np.array([self._position[value] for value in asked], dtype=np.int32)
        except KeyError as error:
            unknown = error.args[0]
            hint = ""
            if isinstance(unknown, str) == self.are_integers:
                kind = "integers" if self.are_integers else "strings"
                hint = f" (ids here are {kind}; {unknown!r} is a {type(unknown).__name__})"
            raise DataError(f"unknown {what} {unknown!r}{hint}") from None

    def decode(self, codes: npt.ArrayLike) -> list[Id]:
        """Original ids of codes."""
        return self.values[np.asarray(codes)].tolist()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ids) and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "integer" if self.are_integers else "string"
        return f"Ids({len(self):,} {kind}s)"


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Distinct (user, item) pairs, sorted by user and then item.

    Build one with `cerp.read`, or from arrays with `from_ids` and `from_codes`.
    The sorted order makes everything downstream independent of the order of
    the rows in a file.
    """

    user: Int32Array
    """User code of each interaction, ascending."""
    item: Int32Array
    """Item code of each interaction, ascending within a user."""
    users: Ids
    """Original user ids. May hold users without interactions: they count in N."""
    items: Ids
    """Original item ids. May hold items without interactions: they count in N."""
    time: Int64Array | None = None
    """When it first happened, in the unit of the source. Only the order is used."""
    duplicates: int = 0
    """How many rows repeated an earlier pair and were merged into it."""
    titles: dict[Id, str] = field(default_factory=dict)
    """Human-readable names by original item id, where known."""

    @classmethod
    def from_codes(
        cls,
        user: npt.ArrayLike,
        item: npt.ArrayLike,
        *,
        users: Ids,
        items: Ids,
        time: npt.ArrayLike | None = None,
    ) -> Interactions:
        """Check, sort and merge (user code, item code) rows.

        A repeated pair keeps its earliest time: that is when the user found
        the item, and the only choice that never moves a known pair into the
        future of a time split.
        """
        rows, columns = np.asarray(user), np.asarray(item)
        if rows.ndim != 1 or rows.shape != columns.shape:
            raise DataError(f"{rows.shape} users against {columns.shape} items: not pairs")
        for name, codes, ids in (("user", rows, users), ("item", columns, items)):
            if codes.size and codes.dtype.kind not in "iu":
                raise DataError(f"{name} codes must be integers, got {codes.dtype}")
            if codes.size and not (codes.min() >= 0 and codes.max() < len(ids)):
                raise DataError(f"{name} codes must be in 0..{len(ids) - 1}")
        width = max(len(items), 1)
        key = rows.astype(np.int64)
        key *= width
        key += columns
        times: Int64Array | None = None
        if time is None:
            key.sort()
        else:
            times = np.asarray(time, dtype=np.int64)
            if times.shape != key.shape:
                raise DataError(f"{times.shape[0]} times for {key.shape[0]} interactions")
            key, order = _sorted_with_order(key, largest=len(users) * width)
            times = times[order]
        first = np.ones(len(key), dtype=bool)
        np.not_equal(key[1:], key[:-1], out=first[1:])
        duplicates = len(key) - int(first.sum())
        if duplicates:
            if times is not None:
                times = np.minimum.reduceat(times, np.flatnonzero(first))
            key = key[first]
        rows = key // width
        columns = key - rows * width
        return cls(
            _frozen(rows.astype(np.int32)),
            _frozen(columns.astype(np.int32)),
            users,
            items,
            _frozen(times) if times is not None else None,
            duplicates,
        )

    @classmethod
    def from_ids(
        cls,
        user: npt.ArrayLike | Sequence[Id],
        item: npt.ArrayLike | Sequence[Id],
        *,
        time: npt.ArrayLike | None = None,
    ) -> Interactions:
        """Interactions from two columns of original ids (integers or strings)."""
        users, user_codes = Ids.in_native_order(_id_column(user, "user"))
        items, item_codes = Ids.in_native_order(_id_column(item, "item"))
        return cls.from_codes(user_codes, item_codes, users=users, items=items, time=time)

    @classmethod
    def from_sparse(cls, matrix: Any) -> Interactions:
        """Interactions from a SciPy sparse matrix or array: row u, column i, value not zero.

        Ids are the row and column numbers; empty rows and columns count.
        """
        coo = matrix.tocoo()
        stored = coo.data != 0
        rows, columns = coo.shape
        return cls.from_codes(
            coo.row[stored], coo.col[stored], users=Ids.range(rows), items=Ids.range(columns)
        ).usable()

    def usable(self) -> Interactions:
        """Itself, or an error when nothing can be learned from it."""
        if len(self) == 0:
            raise DataError("no interactions: the data is empty (or everything was filtered out)")
        for name, ids in (("user", self.users), ("item", self.items)):
            if len(ids) < 2:
                raise DataError(
                    f"only one {name} ({ids.decode([0])[0]!r}): "
                    "a recommender needs at least two users and two items"
                )
        return self

    def __len__(self) -> int:
        return len(self.user)

    @property
    def num_users(self) -> int:
        """|U|, users without interactions included."""
        return len(self.users)

    @property
    def num_items(self) -> int:
        """|I|, items without interactions included."""
        return len(self.items)

    @cached_property
    def user_offsets(self) -> Int64Array:
        """CSR row pointers: the items of user u are ``item[offsets[u]:offsets[u + 1]]``."""
        counts = np.bincount(self.user, minlength=self.num_users)
        return _frozen(np.concatenate(([0], np.cumsum(counts, dtype=np.int64))))

    @cached_property
    def item_counts(self) -> Int64Array:
        """How many users took each item."""
        return _frozen(np.bincount(self.item, minlength=self.num_items))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the sorted (user, item) codes as little-endian int32 pairs.

        Independent of the order of the rows in the source.
        """
        pairs = np.stack([self.user, self.item], axis=1).astype("<i4")
        return hashlib.sha256(pairs.tobytes()).hexdigest()

    def subset(self, keep: npt.NDArray[np.bool_]) -> Interactions:
        """Some of the interactions, over the same ids."""
        return replace(
            self,
            user=_frozen(self.user[keep]),
            item=_frozen(self.item[keep]),
            time=_frozen(self.time[keep]) if self.time is not None else None,
            duplicates=0,
        )

    def k_core(self, k: int) -> Interactions:
        """The largest part in which every user and every item has at least k interactions.

        Ids that fall out are forgotten; the rest keep their native order.
        """
        if k < 1:
            raise ConfigError(f"k-core needs k of at least 1, got {k}")
        keep = np.ones(len(self), dtype=bool)
        while True:
            user_counts = np.bincount(self.user[keep], minlength=self.num_users)
            item_counts = np.bincount(self.item[keep], minlength=self.num_items)
            still = keep & (user_counts[self.user] >= k) & (item_counts[self.item] >= k)
            if still.sum() == keep.sum():
                break
            keep = still
        if not keep.any():
            raise DataError(f"nothing is left of {len(self):,} interactions in the {k}-core")
        return self._compacted(user_counts > 0, item_counts > 0, keep)

    def _compacted(
        self,
        keep_users: npt.NDArray[np.bool_],
        keep_items: npt.NDArray[np.bool_],
        keep: npt.NDArray[np.bool_],
    ) -> Interactions:
        new_user = np.cumsum(keep_users, dtype=np.int32) - 1
        new_item = np.cumsum(keep_items, dtype=np.int32) - 1
        part = self.subset(keep)
        return replace(
            part,
            user=_frozen(new_user[part.user]),
            item=_frozen(new_item[part.item]),
            users=Ids(self.users.values[keep_users]),
            items=Ids(self.items.values[keep_items]),
            duplicates=self.duplicates,
        )

    def split(self, protocol: str = "random", *, seed: int = 0) -> Splits:
        """Train, validation and test parts; see `cerp.data.protocols`."""
        from cerp.data.splits import split

        return split(self, protocol, seed=seed)

    def __repr__(self) -> str:
        time = ", with times" if self.time is not None else ""
        return (
            f"Interactions({len(self):,} of {self.num_users:,} users "
            f"and {self.num_items:,} items{time})"
        )


def _sorted_with_order(key: Int64Array, *, largest: int) -> tuple[Int64Array, Int64Array]:
    """Keys in order, and where each was: packed into one integer, which sorts far faster."""
    bits = max(len(key) - 1, 0).bit_length()
    if largest.bit_length() + bits > 63:
        order = np.argsort(key)
        return key[order], order
    packed = (key << bits) | np.arange(len(key))
    packed.sort()
    return packed >> bits, packed & ((1 << bits) - 1)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def _id_column(column: npt.ArrayLike | Sequence[Id], name: str) -> npt.NDArray[Any]:
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
            return _id_column(array.astype(np.int64), name)
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
    return array
