from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cerp.data.interactions import Interactions
from cerp.evaluation.baselines import Popularity, Random


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


def test_random_scores_of_a_user_do_not_depend_on_the_company() -> None:
    random = Random(100, seed=3)
    together = random.score_all(codes(4, 7, 9))
    assert together.dtype == np.float32
    assert together[1:].tolist() == random.score_all(codes(7, 9)).tolist()


def test_random_scores_differ_between_users_and_seeds() -> None:
    scores = np.concatenate([Random(100, seed).score_all(codes(0, 1)) for seed in (0, 1)])
    assert len(np.unique(scores.argmax(axis=1))) == 4
