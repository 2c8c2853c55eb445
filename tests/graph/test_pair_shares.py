from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from cerp.graph.edges import Edges
from cerp.graph.filter import Exponents, GraphFilter
from cerp.graph.pair_shares import BOUND, LARGEST, PairShares, pair_shares
from small_graphs import edges_of, splits_of


@pytest.fixture(scope="module")
def model() -> GraphFilter:
    return GraphFilter(Edges.of(splits_of(3, users=150, items=60).train), Exponents(0.6, 0.7, 0.3))


def dense(model: GraphFilter) -> npt.NDArray[np.float64]:
    """F / max F of all pairs, the maximum over what is not taken."""
    users = np.arange(model.edges.num_users, dtype=np.int32)
    strengths = model.strengths(users).astype(np.float64)
    for user, row in zip(users, strengths, strict=True):
        free = np.delete(row, model.edges.history(int(user)))
        row /= free.max() if free.max(initial=0) > 0 else np.inf
    return strengths


def table(shares: PairShares, model: GraphFilter) -> npt.NDArray[np.float64]:
    """The pairs in their places, 0 elsewhere."""
    result = np.zeros(model.edges.num_users * model.num_items)
    result[shares.keys] = shares.values
    return result.reshape(-1, model.num_items)


def test_pairs_are_those_of_the_whole_filter(model: GraphFilter):
    shares, expected = pair_shares(model), dense(model)
    assert (np.diff(shares.keys) > 0).all()
    assert expected.max() < LARGEST
    near = np.where(expected >= BOUND, expected, 0)
    assert np.count_nonzero(near) == len(shares.keys)
    np.testing.assert_allclose(table(shares, model), near, rtol=2**-10)


def test_of_few_pairs_the_largest_are_kept_and_all_that_are_taken(model: GraphFilter):
    few, expected = 5, dense(model)
    shares = pair_shares(model, most_pairs=few * model.edges.num_users + 1)
    kept = table(shares, model) > 0
    for user, row in enumerate(expected):
        taken = model.edges.history(user)
        assert kept[user, taken].all()
        free = np.delete(row, taken)
        least = np.sort(free)[-few:].min()
        chosen = np.delete(kept[user], taken)
        assert chosen.sum() == min(few, np.count_nonzero(free >= BOUND))
        assert (free[chosen] >= least * (1 - 1e-6)).all()


def test_without_a_path_to_something_new_nothing_is_kept():
    model = GraphFilter(edges_of(np.eye(3, 4, dtype=bool)), Exponents(0.5, 0.5, 0.5))
    assert len(pair_shares(model).keys) == 0


def test_what_half_precision_cannot_hold_is_cut():
    # User 0 alone took item 0; item 2 is reached by 20 users who took everything else as well.
    taken = np.zeros((21, 90), dtype=bool)
    taken[0, [0, 1]] = True
    taken[1:, 1:] = True
    model = GraphFilter(edges_of(taken), Exponents(2.0, 0.0, 2.0))
    assert dense(model)[0, 0] > LARGEST
    assert table(pair_shares(model), model)[0, 0] == np.float16(LARGEST)
