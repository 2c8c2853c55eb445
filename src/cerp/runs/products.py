"""What the stages of a run leave, one after the other: each a small value with a file of its own.

    Plan     what is to be trained for each budget, and the order of ids
    Coded    the codebook rows of every entity, where they are learned
    Searched what the method's search found for each limit
    Trained  the weights of one budget's model, after validation chose among its precisions
    Judged   its figures on validation and test
    Shipped  its file, and what is stored in it

Loading a run reads them. Nothing in here computes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from cerp.config import Config
from cerp.data.ids import Float32Array, Int32Array
from cerp.evaluation.metrics import Metrics
from cerp.sizing.precision_plan import Candidate
from cerp.training.search_result import Found


@dataclass(frozen=True, eq=False)
class Plan:
    """What a run is going to do."""

    config: Config
    fingerprint: str
    """Of the data."""
    candidates: dict[str, tuple[Candidate, ...]]
    """By budget: each way to meet it that is worth training."""
    positions: Int32Array | None
    """Where each entity stands in the chosen order; None: where its id says."""

    @property
    def limits(self) -> tuple[int, ...]:
        """All limits in values, of all budgets."""
        return tuple(one.limit for entries in self.candidates.values() for one in entries)


@dataclass(frozen=True, eq=False)
class Coded:
    """Which rows entities get, where that is learned."""

    codes: Int32Array | None
    """(N, m): the row of each entity in each codebook; None: a hash chooses."""
    seconds: float
    rows: Float32Array | None = None
    """(m, K, d): what the rows of a student start from."""
    teacher: Float32Array | None = None
    """(N, d): the final vectors of its teacher."""
    teacher_score: float | None = None
    """The selection metric of the teacher's vectors on validation."""


@dataclass(frozen=True, eq=False)
class Searched:
    """What a search left, by limit."""

    found: dict[int, Found]


@dataclass(frozen=True, eq=False)
class Trained:
    """The weights of one model."""

    candidate: Candidate
    """The way to meet the budget that validation chose."""
    weights: dict[str, Tensor]
    """The recommender's state, with values as its file has them."""
    best_epoch: int
    best_valid: float
    """The selection metric in that epoch."""
    seconds: float
    """Training of all candidates."""
    counts: dict[str, Any]
    """What the embedding stores, by the names of `cerp.runs.facts.ModelFacts`."""
    mixture: dict[str, Any] | None = None
    """What validation says of the graph filter beside the vectors, where that was asked for."""


@dataclass(frozen=True, eq=False)
class Judged:
    """How good a model is."""

    metrics: dict[str, dict[str, Any]]
    """Means on valid and test, where they may be looked at."""
    seconds: float
    per_user: dict[str, Metrics] = field(default_factory=dict, repr=False)
    """With every user's values; empty for a model that was read from a folder."""


@dataclass(frozen=True, eq=False)
class Shipped:
    """What the file of a model takes, or why there is none."""

    code_bytes: int | None = None
    embedding_bytes: int | None = None
    file_bytes: int | None = None
    why_no_file: str | None = None
