"""Users as the items that a caller brings: nobody needs to be known to the model."""

from __future__ import annotations

import numpy as np

from cerp.artifact.model import FloatArray
from cerp.data.ids import Int32Array
from cerp.data.interactions import Interactions
from cerp.evaluation.evaluate import entries_of
from cerp.runtime.rankers import Ranker


class OfHistories:
    """Users as nobody knows them: by what they took."""

    def __init__(self, ranker: Ranker, train: Interactions) -> None:
        self._ranker, self._train = ranker, train

    def score_all(self, users: Int32Array) -> FloatArray:
        """Scores of every item for users by their codes."""
        rows, items = entries_of(self._train, users)
        ends = np.searchsorted(rows, np.arange(1, len(users)))
        asked = self._ranker.of_histories(np.split(items, ends))
        return self._ranker.scores(asked, slice(None))
