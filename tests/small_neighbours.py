"""A small model of weights between items."""

from __future__ import annotations

import numpy as np

from cerp.artifact import ShippedModel
from cerp.data.ids import Ids
from cerp.graph.neighbours import Neighbours
from small_models import NUM_ITEMS, small_model


def small_neighbours(seed: int = 0, share: float = 0.2) -> ShippedModel:
    """Random weights of random pairs, some negative; some items are of nobody's neighbours."""
    rng = np.random.default_rng(seed)
    stored = rng.random((NUM_ITEMS, NUM_ITEMS)) < share
    stored[:5] = False
    size = int(stored.sum())
    integers = rng.integers(1, 128, size) * rng.choice([1, 1, 1, -1], size)
    model = small_model()
    return ShippedModel(
        facts={},
        users=Ids.range(0),
        items=model.items,
        head=None,
        embedding=None,
        neighbours=Neighbours(
            offsets=np.concatenate([[0], np.cumsum(stored.sum(axis=1))]),
            targets=np.nonzero(stored)[1].astype(np.int32),
            integers=integers.astype(np.int8),
            scales=np.where(stored.any(axis=1), rng.random(NUM_ITEMS), 0).astype(np.float16),
            popularity=rng.integers(1, 30, NUM_ITEMS).astype(np.uint8),
        ),
        titles=model.titles,
    )
