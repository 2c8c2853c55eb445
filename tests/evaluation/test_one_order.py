"""Lists by one order for everybody, beside the general ranking."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerp.data.synthetic import synthetic
from cerp.evaluation.baselines import Popularity
from cerp.evaluation.evaluate import evaluate
from cerp.evaluation.one_order import falling, first_of
from cerp.evaluation.ranking import exclude, top_k


def test_what_a_user_has_taken_is_stepped_over():
    order = falling(np.array([3.0, 9.0, 3.0, 7.0, -np.inf]), hidden=np.array([3]))
    assert order.tolist() == [1, 0, 2]  # equal ones ascend; 3 is hidden and 4 is never recommended
    rows, taken = np.array([0, 0, 2, 2, 2]), np.array([0, 4, 0, 1, 2], dtype=np.int32)
    lists = first_of(order, rows, taken, count=3, k=2)
    assert lists.tolist() == [[1, 2], [1, 0], [-1, -1]]


@given(st.data())
def test_lists_are_those_of_the_general_ranking(data: st.DataObject):
    items, users = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4))
    k = data.draw(st.integers(1, items))
    scores = np.array(data.draw(st.lists(st.integers(0, 3), min_size=items, max_size=items)), "f4")
    pairs = st.tuples(st.integers(0, users - 1), st.integers(0, items - 1))
    taken = sorted(data.draw(st.sets(pairs)))
    rows, columns = np.array(taken, dtype=np.int64).reshape(-1, 2).T
    hidden = np.array(sorted(data.draw(st.sets(st.integers(0, items - 1)))), dtype=np.int64)
    wanted, _ = top_k(exclude(np.tile(scores, (users, 1)), rows, columns, hidden), k)
    found = first_of(falling(scores, hidden), rows, columns.astype(np.int32), users, k)
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("unseen_items", [False, True])
@pytest.mark.parametrize("memory", [1, 1 << 20])
def test_popularity_has_the_same_figures_without_a_matrix(unseen_items: bool, memory: int):
    splits = synthetic(80, 50, 900).split(seed=0)
    popularity = Popularity(splits.train)

    class Written:
        score_all = staticmethod(popularity.score_all)

    found, wanted = (
        evaluate(scorer, splits, unseen_items=unseen_items, memory=memory)
        for scorer in (popularity, Written())
    )
    assert found.summary() == wanted.summary()
    assert all((found.per_user[name] == wanted.per_user[name]).all() for name in wanted.per_user)
