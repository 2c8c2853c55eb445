"""Yesterday's model on today's rows: what it can be judged on, and what is new to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cerp.data.ids import Ids, Int64Array
from cerp.data.interactions import Interactions
from cerp.data.splits import Splits
from cerp.errors import DataError
from cerp.naming import counted


class LaterRows(NamedTuple):
    """Rows that came after training, as a split over the ids of the model."""

    splits: Splits
    """Train: what the model knows. Test: later rows of its users and items that it did not."""
    judged: int
    """Rows that are judged."""
    repeated: int
    """Rows that the model knew already."""
    of_new_users: int
    """Rows of users whom it does not know, whatever the item."""
    of_new_items: int
    """Rows of its users with items that it does not know."""
    new_users: int
    new_items: int

    def counts(self) -> dict[str, int]:
        """For programs."""
        return {
            name: value for name, value in self._asdict().items() if not isinstance(value, Splits)
        }

    def __str__(self) -> str:
        return (
            f"{self.judged:,} judged. Not judged: {self.repeated:,} known before, "
            f"{self.of_new_users:,} of {counted(self.new_users, 'new user')}, "
            f"{self.of_new_items:,} with {counted(self.new_items, 'new item')}"
        )


def later_rows(known: Interactions, later: Interactions) -> LaterRows:
    """What of later rows a model that knows some interactions can be judged on."""
    users, items = _places(known.users, later.users), _places(known.items, later.items)
    user, item = users[later.user], items[later.item]
    is_known_user, is_known_item = user >= 0, item >= 0
    both = is_known_user & is_known_item
    width = known.num_items
    keys = known.user.astype(np.int64) * width + known.item
    repeated = both.copy()
    repeated[both] = np.isin(user[both] * width + item[both], keys)
    judged = both & ~repeated
    if not judged.any():
        raise DataError(
            "none of the later rows has a user and an item that the model knows and a pair that it "
            f"does not: {int((~is_known_user).sum()):,} rows are of users whom it does not know, "
            f"{int((is_known_user & ~is_known_item).sum()):,} of items, {int(repeated.sum()):,} "
            "are known. Are the ids written alike?"
        )
    test = Interactions.from_codes(user[judged], item[judged], users=known.users, items=known.items)
    nothing = known.subset(np.zeros(len(known), dtype=bool))
    return LaterRows(
        Splits(known, nothing, test, protocol={"name": "later rows"}),
        int(judged.sum()),
        int(repeated.sum()),
        int((~is_known_user).sum()),
        int((is_known_user & ~is_known_item).sum()),
        int((users < 0).sum()),
        int((items < 0).sum()),
    )


def _places(known: Ids, later: Ids) -> Int64Array:
    """The code that each later id has among those known; -1: none."""
    place = {one: code for code, one in enumerate(known.values.tolist())}
    found = (place.get(known.of_kind(one), -1) for one in later.values.tolist())
    return np.fromiter(found, dtype=np.int64, count=len(later))
