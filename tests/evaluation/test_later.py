"""Which of tomorrow's rows a model of today can be judged on."""

from __future__ import annotations

import pytest

from cerp.data.interactions import Interactions
from cerp.errors import DataError
from cerp.evaluation.later import later_rows

KNOWN = Interactions.from_ids(["a", "a", "b"], [1, 2, 3])


def test_later_rows_are_told_apart():
    later = Interactions.from_ids(["a", "a", "a", "c", "b"], [1, 3, 9, 1, 1])
    found = later_rows(KNOWN, later)
    # a-1 is known, a-3 and b-1 are judged, a-9 is a new item, c is a new user.
    assert (found.judged, found.repeated, found.of_new_users, found.of_new_items) == (2, 1, 1, 1)
    assert (found.new_users, found.new_items) == (1, 1)
    test = found.splits.test
    pairs = zip(test.users.decode(test.user), test.items.decode(test.item), strict=True)
    assert set(pairs) == {("a", 3), ("b", 1)}
    assert found.splits.train is KNOWN
    assert "2 judged. Not judged: 1 known before, 1 of 1 new user, " in str(found)


def test_rows_of_strangers_alone_are_refused():
    with pytest.raises(DataError, match="2 rows are of users whom it does not know"):
        later_rows(KNOWN, Interactions.from_ids(["x", "y"], [1, 2]))
