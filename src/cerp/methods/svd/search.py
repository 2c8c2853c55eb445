"""Exponents and rank of a scaled SVD by validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cerp.data.ids import Float32Array
from cerp.data.splits import Splits
from cerp.graph.climbing import climbed
from cerp.graph.edges import Edges
from cerp.graph.history_sums import HistorySums, HistoryVectors
from cerp.graph.neighbours import popularity_levels
from cerp.graph.scaled_svd import ScaledSvd, Scaling
from cerp.graph.trials import figure_of_trial
from cerp.progress import Bar

SCANNED = (8, 16, 32, 64, 128, 256)
"""Ranks that the search looks at first: what they are worth may fall and rise again."""
RANKS = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
EIGHTHS = tuple(eighths / 8 for eighths in range(9))
LADDERS: Mapping[str, Sequence[float]] = {
    "history": (-0.25, -0.125, *EIGHTHS),
    "lengths": (-0.25, -0.125, *EIGHTHS[:6]),
    "spectrum": (0.0, 0.25, 0.5, 0.75, 1.0),
    "items": EIGHTHS[:7],
    "users": EIGHTHS[:7],
}
"""What each exponent is chosen from. The last two need a decomposition for each trial."""
STARTS = (
    Scaling(2, items=0.25, users=0.25, lengths=0.125, spectrum=0.0, history=0.25),
    Scaling(2, items=0.375, users=0.375, lengths=0.0, spectrum=0.25, history=0.125),
)
"""The search begins with the best of them, of any rank that is scanned."""
ROUNDS = 4
IMPOSSIBLE = -1.0
"""Of a scaling by which popular items would count more in a sum than rare ones: no file has it."""


@dataclass(eq=False)
class ScalingSearch:
    """Trials on one split; what was judged once is not judged again."""

    splits: Splits
    metric: str
    seed: int
    largest_rank: int
    bar: Bar
    judged: dict[Scaling, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ranks = [rank for rank in RANKS if rank <= self.largest_rank]
        self.svd = ScaledSvd(Edges.of(self.splits.train), self.ranks[-1], self.seed)
        self.popularity = popularity_levels(self.splits.train.item_counts)

    def best(self) -> Scaling:
        """The scaling that validation likes best, of any rank."""
        scanned = [rank for rank in self.ranks if rank in SCANNED] or self.ranks
        starts = [replace(start, rank=rank) for start in STARTS for rank in scanned]
        for start in reversed(starts):  # the longest vectors first: the others are part of them
            self.judge(start)
        start = max(starts, key=self.judge)
        return climbed(start, {"rank": self.ranks, **LADDERS}, self.judge, rounds=ROUNDS)

    def judge(self, scaling: Scaling) -> float:
        """The metric on validation, of a fixed sample of users."""
        if scaling not in self.judged:
            exponent = scaling.sum_exponent
            self.judged[scaling] = IMPOSSIBLE
            if exponent >= 0:
                self.judged[scaling] = self.judge_vectors(self.svd.vectors(scaling), exponent)
            self.bar.advance(1, f"{self.metric} {max(self.judged.values()):.4f}")
        return self.judged[scaling]

    def judge_vectors(self, vectors: Float32Array, exponent: float) -> float:
        """The same of vectors however they came about."""
        sums = HistorySums(exponent, self.popularity)
        scorer = HistoryVectors(vectors, sums, self.splits.train)
        return figure_of_trial(scorer, self.splits, self.metric, self.seed)
