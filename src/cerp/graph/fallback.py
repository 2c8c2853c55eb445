"""Popularity for users without training rows, whatever the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cerp.data.ids import Int32Array
from cerp.data.interactions import Interactions
from cerp.evaluation.evaluate import Scorer

if TYPE_CHECKING:
    from cerp.evaluation.ranking import Scores


def users_without_rows(train: Interactions) -> Int32Array:
    """Codes of users of whom training knows nothing, ascending."""
    return np.flatnonzero(np.diff(train.user_offsets) == 0).astype(np.int32)


class PopularityForUnknown:
    """A scorer whose users without training rows get the number of takers of each item.

    Parameters
    ----------
    scorer
        Scores everybody else.
    train
        What training knows.

    Attributes
    ----------
    unknown
        Codes of the users that get popularity, ascending; ``len(unknown)`` counts them.

    """

    def __init__(self, scorer: Scorer, train: Interactions) -> None:
        self.scorer = scorer
        self.counts = train.item_counts.astype(np.float32)
        self.unknown = users_without_rows(train)
        self._is_unknown = np.zeros(train.num_users, dtype=bool)
        self._is_unknown[self.unknown] = True

    def score_all(self, users: Int32Array) -> Scores:
        """Scores of the model, or popularity, (len(users), num_items)."""
        scores = self.scorer.score_all(users)
        rows = np.flatnonzero(self._is_unknown[users])
        if rows.size and isinstance(scores, np.ndarray):
            writable = np.require(scores, requirements="W")
            writable[rows] = self.counts
            return writable
        if rows.size and not isinstance(scores, np.ndarray):
            scores[rows] = scores.new_tensor(self.counts)
        return scores
