"""What ranks from the items of whoever asks, and knows no users."""

from __future__ import annotations

from cerp.graph.history_sums import SummedItems
from cerp.graph.neighbours import Neighbours

ItemModel = Neighbours | SummedItems
"""Each has a number of stored values, ``len(model)``."""
