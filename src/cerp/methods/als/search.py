"""Rank, λ, α and iterations of ALS by validation: one coordinate after the other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cerp.data.ids import Float32Array, Int32Array
from cerp.data.splits import Splits
from cerp.graph.climbing import climbed
from cerp.graph.trials import figure_of_trial
from cerp.methods.als.solver import AlsSettings, als_vectors
from cerp.progress import Bar

RANKS = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
LADDERS: Mapping[str, Sequence[float]] = {
    "alpha": (1, 2, 4, 8, 16, 32),
    "regularization": (0.1, 1, 3, 10, 30, 100, 300),
    "iterations": (5, 10, 15, 30),
}
"""What each setting is chosen from; a rank also from `RANKS`, as far as there is room."""
START = AlsSettings(rank=16, regularization=10, alpha=2, iterations=15)
ROUNDS = 3
"""Passes over all settings at most; the search ends with one that changes nothing."""


class DotProducts:
    """Scores ``⟨x_u, y_i⟩`` of vectors, users first."""

    def __init__(self, vectors: Float32Array, num_users: int) -> None:
        self.users, self.items = vectors[:num_users], vectors[num_users:]

    def score_all(self, users: Int32Array) -> Float32Array:
        """Of all items, (len(users), num_items)."""
        scores: Float32Array = self.users[users] @ self.items.T
        return scores


@dataclass(frozen=True)
class FoundSettings:
    """The best settings for a largest rank."""

    settings: AlsSettings
    score: float
    """The metric on validation."""
    trials: int
    """How many were judged for it."""


@dataclass(eq=False)
class AlsSearch:
    """Trials on one split; what was judged once is not judged again for another rank."""

    splits: Splits
    metric: str
    seed: int
    bar: Bar
    judged: dict[AlsSettings, float] = field(default_factory=dict)

    def best(self, most: int) -> FoundSettings:
        """The settings that validation likes best, of a rank up to ``most``."""
        before = len(self.judged)
        ranks = _ranks(most)
        start = replace(START, rank=max(rank for rank in ranks if rank <= START.rank))
        found = climbed(start, {"rank": ranks, **LADDERS}, self.judge, rounds=ROUNDS)
        return FoundSettings(found, self.judged[found], len(self.judged) - before)

    def judge(self, settings: AlsSettings) -> float:
        """The metric on validation, of a fixed sample of users."""
        if settings not in self.judged:
            started = time.monotonic()
            splits = self.splits
            vectors = als_vectors(splits.train, settings, self.seed)
            scorer = DotProducts(vectors, splits.num_users)
            self.judged[settings] = figure_of_trial(scorer, splits, self.metric, self.seed)
            best = max(self.judged.values())
            self.bar.advance(
                1, f"{self.metric} {best:.4f}, {time.monotonic() - started:.1f} s a trial"
            )
        return self.judged[settings]


def _ranks(most: int) -> list[int]:
    """Those of the ladder below ``most``, and ``most`` itself."""
    return [*(rank for rank in RANKS if rank < most), most]
