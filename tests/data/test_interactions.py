from __future__ import annotations

import hashlib

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from cerp.data.ids import Ids
from cerp.data.interactions import Interactions
from cerp.data.sorting import STRETCH
from cerp.errors import ConfigError, DataError


def pairs(data: Interactions) -> list[tuple[object, object]]:
    return list(zip(data.users.decode(data.user), data.items.decode(data.item), strict=True))


def test_integer_ids_are_numbered_numerically():
    data = Interactions.from_ids([30, 7, 30], [200, 100, 3])
    assert data.users.values.tolist() == [7, 30]
    assert data.items.values.tolist() == [3, 100, 200]
    assert (data.user.tolist(), data.item.tolist()) == ([0, 1, 1], [1, 0, 2])


def test_string_ids_are_numbered_by_first_appearance():
    data = Interactions.from_ids(["zoe", "al", "zoe"], ["b", "a", "c"])
    assert data.users.values.tolist() == ["zoe", "al"]
    assert data.items.values.tolist() == ["b", "a", "c"]


def test_columns_are_int32_and_cannot_be_written():
    data = Interactions.from_ids([1, 2], [3, 4])
    assert data.user.dtype == data.item.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        data.user[0] = 5


def test_times_however_far_apart_stay_with_their_pairs():
    first, last = -(2**63), 2**63 - 1
    data = Interactions.from_ids([2, 1, 1, 1], [6, 5, 5, 6], time=[3, last, first, last])
    assert data.time is not None
    assert data.time.tolist() == [first, last, 3]


def test_repeated_pairs_are_merged_and_counted_and_keep_the_earliest_time():
    data = Interactions.from_ids([1, 1, 2, 1], [5, 5, 6, 5], time=[30, 10, 7, 20])
    assert pairs(data) == [(1, 5), (2, 6)]
    assert data.duplicates == 2
    assert data.time is not None
    assert data.time.tolist() == [10, 7]


ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1)


@given(ROWS, st.randoms())
def test_integer_data_does_not_depend_on_the_order_of_rows(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    first = Interactions.from_ids(*zip(*rows, strict=True))
    second = Interactions.from_ids(*zip(*shuffled, strict=True))
    assert first.fingerprint == second.fingerprint
    assert pairs(first) == pairs(second) == sorted(set(rows))


def test_string_data_is_numbered_by_the_order_of_rows_and_its_fingerprint_tells():
    first = Interactions.from_ids(["a", "a", "b"], ["x", "y", "x"])
    second = Interactions.from_ids(["b", "a", "a"], ["x", "y", "x"])
    assert set(pairs(first)) == set(pairs(second))
    assert first.fingerprint != second.fingerprint


def test_fingerprint_is_the_sha256_of_the_sorted_little_endian_pairs():
    data = Interactions.from_ids([1, 0, 0], [0, 1, 0])
    expected = hashlib.sha256(np.array([[0, 0], [0, 1], [1, 0]], dtype="<i4").tobytes())
    assert data.fingerprint == expected.hexdigest()


def test_a_sparse_matrix_keeps_empty_rows_and_drops_stored_zeros():
    matrix = scipy.sparse.coo_array(([1.0, 0.0, 2.0], ([0, 1, 2], [1, 1, 0])), shape=(4, 3))
    data = Interactions.from_sparse(matrix)
    assert (data.num_users, data.num_items) == (4, 3)
    assert pairs(data) == [(0, 1), (2, 0)]


def test_items_of_a_user_lie_between_its_offsets():
    data = Interactions.from_codes([2, 0, 2], [1, 1, 0], users=Ids.range(3), items=Ids.range(2))
    assert data.user_offsets.tolist() == [0, 1, 1, 3]
    assert data.item_counts.tolist() == [1, 2]


def test_k_core_removes_in_rounds_until_nothing_more_falls():
    # 'd' takes only x; without d, x has one user left, so x falls too and then c.
    rows = [("a", "y"), ("a", "z"), ("b", "y"), ("b", "z"), ("c", "x"), ("c", "y"), ("d", "x")]
    core = Interactions.from_ids(*zip(*rows, strict=True)).k_core(2)
    assert pairs(core) == [("a", "y"), ("a", "z"), ("b", "y"), ("b", "z")]
    assert core.users.values.tolist() == ["a", "b"]


@given(ROWS, st.integers(1, 4))
def test_k_core_leaves_everyone_with_at_least_k(rows, k):
    data = Interactions.from_ids(*zip(*rows, strict=True))
    try:
        core = data.k_core(k)
    except DataError:
        return
    assert np.bincount(core.user).min() >= k
    assert np.bincount(core.item).min() >= k


def test_k_core_that_leaves_nothing_says_so():
    with pytest.raises(DataError, match=r"nothing is left of 2 interactions in the 3-core"):
        Interactions.from_ids([1, 2], [1, 2]).k_core(3)


def test_k_core_of_zero_is_refused():
    with pytest.raises(ConfigError, match="at least 1"):
        Interactions.from_ids([1, 2], [1, 2]).k_core(0)


def test_ids_encode_what_they_decode_and_name_the_unknown():
    ids = Ids(["007", "NA", "x"])
    assert ids.encode(["x", "007"]).tolist() == [2, 0]
    assert ids.decode([1]) == ["NA"]
    with pytest.raises(DataError, match="unknown user 'y'"):
        ids.encode(["y"], what="user")


@given(st.lists(st.integers(-3, 9) | st.sampled_from([2**63 - 1, -(2**63)]), unique=True))
def test_integers_are_found_as_in_a_dictionary_in_any_order(values: list[int]):
    ids = Ids(np.array(values, dtype=np.int64))
    asked = [*range(-4, 11), 2**63 - 1, -(2**63), 2**63, 2**70, 3.0, 2.5, float("inf"), "3", None]
    position = {value: code for code, value in enumerate(values)}
    assert ids.known(asked).tolist() == [one in position for one in asked]
    known = [one for one in asked if one in position]
    assert ids.encode(known).tolist() == [position[one] for one in known]


@pytest.mark.parametrize("values", [[4, 7, 4], [4, 4], ["a", "a"]])
def test_equal_ids_are_refused_when_they_are_looked_up(values: list[int] | list[str]):
    with pytest.raises(DataError, match="not distinct"):
        Ids(values).encode(values)


def test_an_id_of_the_wrong_type_is_explained():
    with pytest.raises(DataError, match="ids here are integers; '7' is a str"):
        Ids([7, 8]).encode(["7"])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1.5, 2.0], "user ids are float64"),
        ([1, "a"], r"mix types: row 1 holds 1 \(int\)"),
        (["a", None], "user id in row 2 is missing"),
        (["a", float("nan")], "user id in row 2 is missing"),
        (["a", ""], "user id in row 2 is missing"),
        ([3, -4], "user id -4 in row 2 is negative"),
        ([3, 2**70], "does not fit into 64 bits"),
        (np.array([1, 2**63], dtype=np.uint64), "does not fit into 64 bits"),
    ],
)
def test_bad_id_columns_are_named(column, message):
    with pytest.raises(DataError, match=message):
        Interactions.from_ids(column, [1, 2])


def test_codes_beyond_the_ids_are_refused():
    with pytest.raises(DataError, match=r"item codes must be in 0\.\.1"):
        Interactions.from_codes([0], [2], users=Ids.range(1), items=Ids.range(2))


@pytest.mark.parametrize(("user", "item"), [([1, 1], [1, 2]), ([1, 2], [1, 1])])
def test_one_user_or_one_item_is_not_usable(user, item):
    with pytest.raises(DataError, match="at least two users and two items"):
        Interactions.from_ids(user, item).usable()


def test_repr_gives_the_sizes():
    data = Interactions.from_ids([1, 1, 2, 2], [3, 4, 3, 3], time=[0, 1, 2, 3])
    assert repr(data).splitlines() == [
        "Interactions: 3 of 2 users and 2 items, with times",
        "  1.5 per user, 1.5 per item, 75.00% of all pairs; 1 repeated row merged",
    ]


@pytest.mark.parametrize(
    ("ids", "given", "expected"),
    [([3, 7], "7", 7), ([3, 7], "x7", "x7"), ([3, 7], 7, 7), (["3", "7"], "7", "7")],
)
def test_text_becomes_an_integer_where_ids_are_integers(
    ids: list[object], given: str, expected: object
):
    assert Ids(ids).of_kind(given) == expected


def test_no_interactions_are_interactions_too():
    made = Interactions.from_codes([], [], users=Ids.range(3), items=Ids.range(2))
    assert (len(made), made.num_users, made.num_items) == (0, 3, 2)


def test_many_pairs_are_sorted_and_merged_like_few():
    rng = np.random.default_rng(0)
    user, item = rng.integers(300, size=200_000), rng.integers(500, size=200_000)
    data = Interactions.from_codes(user, item, users=Ids.range(300), items=Ids.range(500))

    expected = np.unique(np.stack([user, item], axis=1), axis=0)
    assert len(expected) > STRETCH
    np.testing.assert_array_equal(np.stack([data.user, data.item], axis=1), expected)
    assert data.duplicates == 200_000 - len(expected)
