"""`Interactions`: who took what, checked once and then immutable.

Users and items are numbered from zero in *native order*: numeric for integer
ids, first appearance for strings. The original ids stay in an `Ids` on each
side, so that whatever leaves the library speaks the caller's language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cerp.data.gathering import Gathering
from cerp.data.ids import Float32Array, Id, Ids, Int32Array, Int64Array, id_column
from cerp.data.sorting import LONG_STRETCH, STRETCH, counts_of
from cerp.data.source_facts import SourceFacts
from cerp.errors import ConfigError, DataError
from cerp.naming import counted

if TYPE_CHECKING:
    from cerp.data.splits import Splits


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Distinct (user, item) pairs, sorted by user and then item.

    Build one with `cerp.read`, or from arrays with `from_ids` and `from_codes`.
    The sorted order makes everything downstream independent of the order of
    the rows in a file, as far as the codes are: string ids are numbered by first
    appearance, so that a shuffled file gives other codes and other splits. To
    keep a split whatever happens to the file, save it with `Splits.save`.
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
    source: SourceFacts | None = None
    """What was read, and from where; None of interactions that were made of arrays."""
    weight: Float32Array | None = None
    """How much each interaction counts in training, positive; None: all alike.

    With w̄ the mean over the training part, a pair counts w / w̄ times as much as one pair of data
    without weights: batches hold it so many times an epoch, and ALS has its
    confidence multiplied by it. Judging, and what learns from the graph alone, looks at no weights.
    """

    @classmethod
    def from_codes(
        cls,
        user: npt.ArrayLike,
        item: npt.ArrayLike,
        *,
        users: Ids,
        items: Ids,
        time: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
    ) -> Interactions:
        """Check, sort and merge (user code, item code) rows.

        A repeated pair keeps its earliest time: that is when the user found
        the item, and the only choice that never moves a known pair into the
        future of a time split. Its weights are added up.
        """
        rows, columns = np.asarray(user), np.asarray(item)
        if rows.ndim != 1 or rows.shape != columns.shape:
            raise DataError(f"{rows.shape} users against {columns.shape} items: not pairs")
        for name, codes, ids in (("user", rows, users), ("item", columns, items)):
            if codes.size and codes.dtype.kind not in "iu":
                raise DataError(f"{name} codes must be integers, got {codes.dtype}")
            if codes.size and not (codes.min() >= 0 and codes.max() < len(ids)):
                raise DataError(f"{name} codes must be in 0..{len(ids) - 1}")
        times = _beside(time, np.int64, "times", len(rows))
        weights = _beside(weight, np.float64, "weights", len(rows))
        if weights is not None and not (np.isfinite(weights) & (weights > 0)).all():
            raise DataError("weights must be positive numbers")
        gathering = Gathering(
            len(users),
            len(items),
            len(rows),
            lambda: counts_of(rows, len(users)),
            times=None if times is None else _ends_of(times),
            weighted=weights is not None,
        )
        for start in range(0, len(rows), LONG_STRETCH):
            stretch = slice(start, start + LONG_STRETCH)
            gathering.add(
                rows[stretch],
                columns[stretch],
                None if times is None else times[stretch],
                None if weights is None else weights[stretch],
            )
        return cls.from_gathered(gathering, users=users, items=items)

    @classmethod
    def from_gathered(cls, gathering: Gathering, *, users: Ids, items: Ids) -> Interactions:
        """What `from_codes` makes of rows that were gathered, whose codes are within range."""
        user, item, time, weight, duplicates = gathering.merged()
        return cls(
            _frozen(user),
            _frozen(item),
            users,
            items,
            None if time is None else _frozen(time),
            duplicates,
            weight=None if weight is None else _frozen(weight.astype(np.float32)),
        )

    @classmethod
    def from_sorted(
        cls, user: Int32Array, item: Int32Array, *, users: Ids, items: Ids
    ) -> Interactions:
        """The same of distinct codes that are in order already, and within range: not copied."""
        for start in range(0, len(user), STRETCH):
            # One more than a stretch: its last pair stands before the first of the next.
            rows, columns = (codes[start : start + STRETCH + 1] for codes in (user, item))
            is_next_user = rows[1:] > rows[:-1]
            is_next_item = (rows[1:] == rows[:-1]) & (columns[1:] > columns[:-1])
            if not (is_next_user | is_next_item).all():
                raise DataError("pairs are not distinct, or not sorted by user and item")
        return cls(_frozen(user), _frozen(item), users, items)

    @classmethod
    def from_ids(
        cls,
        user: npt.ArrayLike | Sequence[Id],
        item: npt.ArrayLike | Sequence[Id],
        *,
        time: npt.ArrayLike | None = None,
        weight: npt.ArrayLike | None = None,
    ) -> Interactions:
        """Interactions from two columns of original ids (integers or strings)."""
        users, user_codes = Ids.in_native_order(id_column(user, "user"))
        items, item_codes = Ids.in_native_order(id_column(item, "item"))
        return cls.from_codes(
            user_codes, item_codes, users=users, items=items, time=time, weight=weight
        )

    @classmethod
    def from_sparse(cls, matrix: Any) -> Interactions:
        """Interactions from a SciPy sparse matrix or array: row u, column i, value not zero.

        Ids are the row and column numbers; empty rows and columns count.
        """
        coo = matrix.tocoo()
        stored = coo.data != 0
        if (unclear := coo.data != coo.data).any():
            first = int(unclear.argmax())
            raise DataError(
                f"the sparse matrix holds NaN in row {coo.row[first]}, column {coo.col[first]}; "
                "put a number there, or 0 for no interaction"
            )
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
        offsets = np.zeros(self.num_users + 1, dtype=np.int64)
        np.cumsum(counts_of(self.user, self.num_users), out=offsets[1:])
        return _frozen(offsets)

    @cached_property
    def item_counts(self) -> Int64Array:
        """How many users took each item."""
        return _frozen(counts_of(self.item, self.num_items))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the sorted (user, item) codes as little-endian int32 pairs.

        It tells whether what was learned by code, such as a table of vectors, fits
        this data. Independent of the order of the rows in the source where ids are
        integers; where they are strings, the codes are not, nor is this.
        """
        digest = hashlib.sha256()
        for stretch in self.stretches():
            digest.update(stretch.data)
        return digest.hexdigest()

    def stretches(self) -> Iterator[npt.NDArray[np.int32]]:
        """The sorted pairs as little-endian int32, (rows, 2), so many at a time as fit a cache."""
        for start in range(0, len(self), STRETCH):
            stretch = slice(start, start + STRETCH)
            yield np.stack([self.user[stretch], self.item[stretch]], axis=1).astype("<i4")

    def keys(self, rows: slice = slice(None)) -> Int64Array:
        """``user · |I| + item`` of each interaction: ascending, and different."""
        keys = self.user[rows].astype(np.int64)
        keys *= max(self.num_items, 1)
        keys += self.item[rows]
        return keys

    def subset(self, keep: npt.NDArray[np.bool_]) -> Interactions:
        """Some of the interactions, over the same ids."""
        return replace(
            self,
            user=_frozen(self.user[keep]),
            item=_frozen(self.item[keep]),
            time=_frozen(self.time[keep]) if self.time is not None else None,
            weight=_frozen(self.weight[keep]) if self.weight is not None else None,
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
        """Cut into train, validation and test parts; none of them overlaps another.

        Parameters
        ----------
        protocol
            ``random``: of each user a fifth of the interactions judges, and a tenth of the rest
            validates. ``leave-last-out``: the last of each user judges, the one before validates.
            ``time``: the last fifth of all interactions judges. The latter two need times.
        seed
            Of ``random``; the others draw nothing.

        Returns
        -------
        Splits
            The parts, over the same users and items.

        Raises
        ------
        ConfigError
            The protocol is unknown, or needs times that the data does not have.

        Examples
        --------
        >>> splits = cerp.read("ratings.csv").split("leave-last-out")

        """
        from cerp.data.splits import split

        return split(self, protocol, seed=seed)

    def __repr__(self) -> str:
        count, pairs = len(self), self.num_users * self.num_items
        extras = [
            name
            for name, there in (
                ("times", self.time is not None),
                ("weights", self.weight is not None),
                ("titles", self.titles),
            )
            if there
        ]
        known = f", with {' and '.join(extras)}" if extras else ""
        merged = f"; {counted(self.duplicates, 'repeated row')} merged" if self.duplicates else ""
        return (
            f"Interactions: {count:,} of {self.num_users:,} users and {self.num_items:,} items"
            f"{known}\n  {count / max(self.num_users, 1):.1f} per user, "
            f"{count / max(self.num_items, 1):.1f} per item, "
            f"{count / max(pairs, 1):.2%} of all pairs{merged}"
        )


def _ends_of(times: Int64Array) -> tuple[int, int]:
    """The least and the greatest time; of none, any."""
    return (int(times.min()), int(times.max())) if len(times) else (0, 0)


def _beside(
    column: npt.ArrayLike | None, kind: npt.DTypeLike, what: str, count: int
) -> npt.NDArray[Any] | None:
    """A column that goes with the pairs, checked to be as long as they are."""
    if column is None:
        return None
    values = np.asarray(column, dtype=kind)
    if values.shape != (count,):
        raise DataError(f"{values.size} {what} for {count} interactions")
    return values


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array
