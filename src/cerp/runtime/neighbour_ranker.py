"""Weights between items that rank, from the items of whoever asks."""

from __future__ import annotations

import numpy as np

from cerp.artifact.model import FloatArray
from cerp.data.ids import Int32Array
from cerp.errors import ConfigError
from cerp.graph.neighbours import Neighbours
from cerp.runtime.rankers import Histories
from cerp.runtime.scoring import Excluded, best_of
from cerp.runtime.selection import Lists


class NeighbourRanker:
    """``score(i) = Σ_{j ∈ history} S_ji``; see `cerp.graph.neighbours`."""

    def __init__(self, neighbours: Neighbours) -> None:
        self.model = neighbours

    @property
    def multiplications(self) -> int:
        """A list adds every weight at most once."""
        return len(self.model) + self.model.num_items

    def of_users(self, users: Int32Array) -> Histories:
        """Nobody is known: the caller brings the items."""
        raise ConfigError(ASK_BY_ITEMS)

    def of_liked(self, items: Int32Array) -> Histories:
        """The items themselves."""
        return [items]

    def of_histories(self, histories: Histories) -> Histories:
        """The same of several."""
        return histories

    def scores(self, asked: Histories, items: Int32Array | slice) -> FloatArray:
        """Exact scores of some items."""
        rows = [self.model.score_history(history)[items] for history in asked]
        return np.stack(rows) if rows else np.empty((0, self.model.num_items), dtype=np.float32)

    def best(self, asked: Histories, k: int, excluded: Excluded) -> Lists:
        """The k best of all items for each history."""
        return best_of(self.scores(asked, slice(None)), k, excluded)

    def similar(self, item: int, k: int) -> Lists:
        """What someone gets who took the item alone."""
        alone = np.array([item], dtype=np.int32)
        return self.best([alone], k, Excluded(np.zeros(1, dtype=np.int64), alone, alone[:0]))


ASK_BY_ITEMS = (
    "this model file holds items and no users, so that users cannot be asked for; give the items "
    "that someone likes instead: liked=ITEM"
)
