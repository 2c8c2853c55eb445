from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.evaluation.baselines import Popularity, Random, RecentPopularity


def codes(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def test_popularity_counts_the_users_of_each_item() -> None:
    train = Interactions.from_ids([0, 1, 2, 0, 0], [5, 5, 5, 6, 7])
    scores = Popularity(train).score_all(codes(2, 0))
    assert scores.dtype == np.float32
    assert scores.tolist() == [[3, 1, 1], [3, 1, 1]]


def test_popularity_hands_over_scores_that_may_be_written_to() -> None:
    popularity = Popularity(Interactions.from_ids([0, 1], [5, 6]))
    popularity.score_all(codes(0))[:] = -np.inf
    assert popularity.score_all(codes(0)).tolist() == [[1, 1]]


def test_recent_popularity_counts_the_latest_tenth_and_ranks_equals_by_all() -> None:
    users = list(range(10)) + list(range(10))
    items = [1] * 10 + [2] * 8 + [3, 3]  # item 3 is rare, and all that is taken of late
    train = Interactions.from_ids(users, items, time=list(range(20)))
    scores = RecentPopularity(train).score_all(codes(0, 4))
    assert scores.dtype == np.float32
    assert np.argsort(-scores, axis=1).tolist() == [[2, 0, 1]] * 2
    assert np.floor(scores[0]).tolist() == [0, 0, 2]


def test_recent_popularity_needs_times() -> None:
    with pytest.raises(ConfigError, match="needs times"):
        RecentPopularity(Interactions.from_ids([0, 1], [5, 6]))


def test_random_scores_of_a_user_do_not_depend_on_the_company() -> None:
    random = Random(100, seed=3)
    together = random.score_all(codes(4, 7, 9))
    assert together.dtype == np.float32
    assert together[1:].tolist() == random.score_all(codes(7, 9)).tolist()


def test_random_scores_differ_between_users_and_seeds() -> None:
    scores = np.concatenate([Random(100, seed).score_all(codes(0, 1)) for seed in (0, 1)])
    assert len(np.unique(scores.argmax(axis=1))) == 4
