"""Scorers that need no training: the floor that every table shows, and two that read ids."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array
from cerp.data.interactions import Interactions
from cerp.data.splitmix import mixed
from cerp.data.splits import Splits
from cerp.errors import ConfigError
from cerp.evaluation.evaluate import Scorer, entries_of

Float32Array = npt.NDArray[np.float32]

WINDOW = 7
"""Codes at most so far apart are neighbours."""
RECENT_SHARE = 0.1
"""Of the training interactions: what counts as of late."""


class Popularity:
    """The same list for everybody: items by how many users took them in training."""

    def __init__(self, train: Interactions) -> None:
        self.scores_for_all = train.item_counts.astype(np.float32)

    def score_all(self, users: Int32Array) -> Float32Array:
        """The number of training interactions of each item, once for each user."""
        return np.tile(self.scores_for_all, (len(users), 1))


class RecentPopularity:
    """The same list for everybody: items by how many took them of late.

    Of late is the latest tenth of the training interactions; equals are ranked by all of them.
    Where the future is judged this is the harder floor: tastes and catalogues change.
    """

    def __init__(self, train: Interactions, share: float = RECENT_SHARE) -> None:
        if train.time is None:
            raise ConfigError("what is popular of late needs times, and this data has none")
        since = np.sort(train.time)[-max(1, round(share * len(train)))]
        recent = np.bincount(train.item[train.time >= since], minlength=train.num_items)
        counts = train.item_counts
        self.scores_for_all = (recent + counts / (1 + counts.max())).astype(np.float32)

    def score_all(self, users: Int32Array) -> Float32Array:
        """The late interactions of each item, once for each user."""
        return np.tile(self.scores_for_all, (len(users), 1))


class Random:
    """A random list for each user, the same whenever and with whomever the user is scored."""

    def __init__(self, num_items: int, seed: int = 0) -> None:
        self.num_items = num_items
        self.seed = seed

    def score_all(self, users: Int32Array) -> Float32Array:
        """Uniform scores in [0, 1): a hash of seed, user and item, to 24 bits."""
        own = users.astype(np.uint64)
        own += np.uint64(self.seed << 32)
        items = np.arange(self.num_items, dtype=np.uint64)
        words = mixed(np.add(mixed(own)[:, None], items, dtype=np.uint64))
        return (words >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)


class ItemWindow:
    """Score of item i for a user: of their training items, how many are within the window of i.

    The item itself does not count.
    """

    def __init__(self, train: Interactions, window: int = WINDOW) -> None:
        self.train, self.window = train, window

    def score_all(self, users: Int32Array) -> Float32Array:
        """Counts, as float32."""
        scores = np.zeros((len(users), self.train.num_items), dtype=np.float32)
        rows, items = entries_of(self.train, users)
        for step in _steps(self.window):
            near = items + step
            inside = (near >= 0) & (near < self.train.num_items)
            # Distinct items of a user stay distinct when shifted: no place is met twice.
            scores[rows[inside], near[inside]] += 1
        return scores


class UserWindow:
    """Score of item i for user u: how many users within the window of u took i in training.

    The user themselves does not count.
    """

    def __init__(self, train: Interactions, window: int = WINDOW) -> None:
        self.train, self.window = train, window

    def score_all(self, users: Int32Array) -> Float32Array:
        """Counts, as float32."""
        scores = np.zeros((len(users), self.train.num_items), dtype=np.float32)
        for step in _steps(self.window):
            near = users + step
            inside = np.flatnonzero((near >= 0) & (near < self.train.num_users))
            rows, items = entries_of(self.train, near[inside])
            scores[inside[rows], items] += 1
        return scores


def _steps(window: int) -> list[int]:
    return [step for step in range(-window, window + 1) if step]


UNTRAINED: dict[str, Callable[[Splits, int], Scorer]] = {
    "popularity": lambda splits, seed: Popularity(splits.train),
    "random": lambda splits, seed: Random(splits.num_items, seed),
    "item-window": lambda splits, seed: ItemWindow(splits.train),
    "user-window": lambda splits, seed: UserWindow(splits.train),
}
"""Scorers by name, each made from a split and a seed."""


def untrained(name: str, splits: Splits, *, seed: int = 0) -> Scorer:
    """The scorer called ``name``, one of `UNTRAINED`."""
    if name not in UNTRAINED:
        raise ConfigError(f"unknown model {name!r}; choose one of {', '.join(UNTRAINED)}")
    return UNTRAINED[name](splits, seed)
