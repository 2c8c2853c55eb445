"""Small models with users and items that training never saw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cerp.artifact.model import Seen, ShippedModel
from small_models import NUM_ITEMS, NUM_USERS, small_model

COLD_USERS = (0, 7, 24)
UNSEEN_ITEMS = (0, 11, 39)


def cold_model(backbone: str = "mf", seed: int = 0) -> ShippedModel:
    """A small model whose users 0, 7 and 24 and items 0, 11 and 39 are in no interaction."""
    rng = np.random.default_rng(seed)
    taken = rng.random((NUM_USERS, NUM_ITEMS)) < np.linspace(0.1, 0.7, NUM_ITEMS)
    # Everybody else has an item, and every other item a taker.
    taken[np.arange(NUM_USERS), 1 + np.arange(NUM_USERS) % 10] = True
    taken[1, :] = True
    taken[list(COLD_USERS), :] = False
    taken[:, list(UNSEEN_ITEMS)] = False
    return replace(small_model(backbone, seed), seen=_seen(taken))


def warm_model(backbone: str = "mf") -> ShippedModel:
    """The same model with everybody and everything in training."""
    taken = np.eye(NUM_USERS, NUM_ITEMS, dtype=bool)
    taken[:, NUM_USERS:] = True
    return replace(small_model(backbone), seen=_seen(taken))


def _seen(taken: np.ndarray) -> Seen:
    offsets = np.concatenate([[0], np.cumsum(taken.sum(axis=1))]).astype(np.int64)
    return Seen(offsets, np.nonzero(taken)[1].astype(np.int32))
