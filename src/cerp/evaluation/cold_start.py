"""Users and items of whom training knows nothing, and what such users get: the popular items.

    score(u, i) = −1 / (1 + d_i),  d_i the number of users who took item i in training,
    for every user u without training rows, whatever the model

A trained vector of someone without rows is the noise it started from, and it ranks as
noise does. The vector of an item without rows is no better, so no list holds such an item
unless that is asked for (``unseen_items=True``); its scores stay defined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cerp.data.ids import Int32Array
from cerp.data.interactions import Interactions
from cerp.evaluation.popularity import popularity_scores

if TYPE_CHECKING:
    from cerp.evaluation.evaluate import Scorer
    from cerp.evaluation.ranking import Scores


def users_without_rows(train: Interactions) -> Int32Array:
    """Codes of users of whom training knows nothing, ascending."""
    return np.flatnonzero(np.diff(train.user_offsets) == 0).astype(np.int32)


def items_without_rows(train: Interactions) -> Int32Array:
    """Codes of items that nobody took in training, ascending."""
    return np.flatnonzero(train.item_counts == 0).astype(np.int32)


def with_popularity(scorer: Scorer, train: Interactions) -> Scorer:
    """The scorer with popularity for users without training rows; itself where there are none."""
    unknown = users_without_rows(train)
    return PopularityForUnknown(scorer, train) if len(unknown) else scorer


class PopularityForUnknown:
    """A scorer whose users without training rows get the items with the most takers.

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
        self.popular = popularity_scores(train.item_counts)
        self.unknown = users_without_rows(train)
        self._is_unknown = np.zeros(train.num_users, dtype=bool)
        self._is_unknown[self.unknown] = True

    def score_all(self, users: Int32Array) -> Scores:
        """Scores of the model, or popularity, (len(users), num_items)."""
        scores = self.scorer.score_all(users)
        rows = np.flatnonzero(self._is_unknown[users])
        if not rows.size:
            return scores
        if isinstance(scores, np.ndarray):
            writable = np.require(scores, requirements="W")
            writable[rows] = self.popular
            return writable
        import torch

        with torch.inference_mode():
            scores[torch.from_numpy(rows)] = scores.new_tensor(self.popular)
        return scores
