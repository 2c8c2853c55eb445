"""Weights between items that rank, from the items of whoever asks."""

from __future__ import annotations

from cerp.data.ids import Int32Array
from cerp.errors import ConfigError
from cerp.graph.neighbours import Neighbours
from cerp.runtime.rankers import Histories, HistoryRanker


class NeighbourRanker(HistoryRanker):
    """``score(i) = Σ_{j ∈ history} S_ji``; see `cerp.graph.neighbours`."""

    model: Neighbours

    def __init__(self, neighbours: Neighbours) -> None:
        self.model = neighbours

    @property
    def multiplications(self) -> int:
        """A list adds every weight at most once."""
        return len(self.model) + self.model.num_items

    def of_users(self, users: Int32Array) -> Histories:
        """Nobody is known: the caller brings the items."""
        raise ConfigError(ASK_BY_ITEMS)


ASK_BY_ITEMS = (
    "this model file holds items and no users, so that users cannot be asked for; give the items "
    "that someone likes instead: liked=ITEM"
)
