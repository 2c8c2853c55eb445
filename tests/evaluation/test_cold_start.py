from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from cerp.evaluation.baselines import Random
from cerp.evaluation.cold_start import PopularityForUnknown, users_without_rows
from small_graphs import interactions

TAKEN = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]], dtype=bool)

# One user took item 0, two took item 1 and nobody took item 2: -1 / (1 + takers).
POPULAR = np.float32([-1 / 2, -1 / 3, -1]).tolist()


def test_users_without_rows_are_counted():
    assert users_without_rows(interactions(TAKEN)).tolist() == [1, 3]
    assert len(PopularityForUnknown(Random(3), interactions(TAKEN)).unknown) == 2


def test_only_they_get_popularity():
    scorer = PopularityForUnknown(Random(3), interactions(TAKEN))
    users = np.array([3, 0, 1], dtype=np.int32)
    scores = scorer.score_all(users)
    assert scores[[0, 2]].tolist() == [POPULAR, POPULAR]
    assert scores[1].tolist() == Random(3).score_all(users)[1].tolist()


def test_tensors_and_arrays_that_cannot_be_written_to_are_served():
    torch = pytest.importorskip("torch")

    class Tensors:
        def score_all(self, users: npt.NDArray[np.int32]) -> object:
            return torch.zeros(len(users), 3)

    class Frozen:
        def score_all(self, users: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
            scores = np.zeros((len(users), 3), dtype=np.float32)
            scores.flags.writeable = False
            return scores

    for scorer in (Tensors(), Frozen()):
        wrapped = PopularityForUnknown(scorer, interactions(TAKEN))
        found = wrapped.score_all(np.array([0, 1], dtype=np.int32))
        assert found.tolist() == [[0, 0, 0], POPULAR]
