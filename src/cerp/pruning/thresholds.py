"""Where thresholds start, and the clock by which they prune.

A threshold at S = -100 cuts nothing, and σ'(S) is 0 in float32, so the loss
cannot move it either. In the authors' code the *coupled* weight decay of Adam
lifts S by about the learning rate per step; with AdamW nothing is ever pruned,
and another batch size means another pruning time. Here the caller says how
many steps pruning takes, and one of two clocks keeps to it:

- `ScheduledClock`: a common shift of all thresholds keeps nnz on a curve to the target;
  the thresholds' gradients decide which entries go.
- `FreeClock`: the paper's dynamics, its learning rate derived from the wanted steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol, get_args

import torch
from torch import Tensor, nn

from cerp.choices import StallAction, ThresholdStart
from cerp.errors import ConfigError
from cerp.pruning.functional import shift_to_keep
from cerp.training.optimizers import adam


def initial_threshold(
    name: ThresholdStart, like: Tensor, scale: float, generator: torch.Generator | None = None
) -> Tensor:
    """``S = scale · B`` with a base matrix B in [0, 1] and a negative scale (paper: -100).

    - ``ones``: B = 1;
    - ``uniform``, ``normal``: B drawn from that distribution;
    - ``long-tail``: ``B = u²`` with u uniform;
    - ``xavier-uniform``: uniform on ±√(6 / (rows + columns)).

    Random bases are scaled to [0, 1] by the minimum and maximum of the whole
    matrix. The authors do it row by row; then the minimum of every row becomes
    S = 0 and is cut at once by σ(0) = 1/2. After the scaling, Xavier-uniform is
    distributed as uniform is; both exist because the paper compares both.
    """
    if name not in get_args(ThresholdStart):
        names = ", ".join(get_args(ThresholdStart))
        raise ConfigError(f"there is no threshold start {name!r}; choose one of {names}")
    base = torch.ones_like(like)
    if name == "ones":
        return base * scale
    if name == "uniform":
        base.uniform_(generator=generator)
    elif name == "normal":
        base.normal_(generator=generator)
    elif name == "long-tail":
        base.uniform_(generator=generator).square_()
    else:
        nn.init.xavier_uniform_(base, generator=generator)
    low, high = base.aminmax()
    return (base - low) / (high - low) * scale


CEILING_TO_WEIGHT = 10.0
"""The ceiling of scheduled thresholds as a multiple of the largest weight, and 1 at least. The
paper's ceiling of 1 is 30 times what its weights start at."""


class Prunable(Protocol):
    """What the scheduled clock needs of an embedding."""

    weight: nn.Parameter
    threshold: nn.Parameter | None
    shift: Tensor
    ceiling: Tensor


@dataclass(frozen=True)
class ScheduledClock:
    """``wanted(k) = t + (n − t)·(1 − x)³`` of n entries survive at step k.

    t is the tightest of ``limits``; the looser ones are passed on the way. x runs
    from 0 to 1 over the steps that are left after the first ``dense_share`` of
    them, in which nothing goes: entries are judged once they have learned something.
    """

    entries: int
    """n: how many entries there are before pruning."""
    limits: tuple[int, ...]
    """Budgets, in any order."""
    steps: int
    """How many optimizer steps pruning takes."""
    dense_share: float = 0.5
    """The share of the steps before the first entry goes. With 0, learned thresholds chose
    worse than plain magnitude (see results/thresholds.json)."""
    every: int = 4
    """Steps from one shift to the next; in between, learning moves nnz a little."""

    def __post_init__(self) -> None:
        if not self.limits or min(self.limits) < 1:
            raise ConfigError(f"pruning needs limits of at least 1 value, got {self.limits}")
        if self.steps < 1 or self.every < 1:
            raise ConfigError(
                f"pruning needs at least 1 step and a shift every 1 or more steps, "
                f"got {self.steps} steps and a shift every {self.every}"
            )
        if not 0 <= self.dense_share < 1:
            raise ConfigError(f"pruning needs a dense share in [0, 1), got {self.dense_share}")

    def wanted(self, step: int) -> int:
        """How many entries survive when ``step`` steps are done."""
        tightest = min(*self.limits, self.entries)
        pruned = max(step / self.steps - self.dense_share, 0) / (1 - self.dense_share)
        return tightest + round((self.entries - tightest) * (1 - min(pruned, 1)) ** 3)

    def apply(self, embedding: Prunable, step: int) -> None:
        """Before step number ``step``: shift the thresholds so that `wanted` entries survive.

        Thresholds stay below the ceiling, so it is kept far above all weights. With
        the paper's, 1, entries above 1 could not be pruned, and once most
        thresholds are near it what they have learned is lost.
        """
        if step % self.every:
            return
        if embedding.threshold is None:
            raise ConfigError("the embedding has no thresholds; call start_pruning() first")
        weight = embedding.weight.detach()
        embedding.ceiling.copy_((CEILING_TO_WEIGHT * weight.abs().max()).clamp_min(1.0))
        embedding.shift.copy_(
            shift_to_keep(weight, embedding.threshold, self.wanted(step), embedding.ceiling)
        )

    def due(self, step: int) -> tuple[int, ...]:
        """The limits that the curve meets as step number ``step``, from 1 to steps, is done.

        Each limit is met once, the loosest first.
        """
        before = math.inf if step <= 1 else self.wanted(step - 1)
        met = {limit for limit in self.limits if self.wanted(step) <= limit < before}
        return tuple(sorted(met, reverse=True))


@dataclass(frozen=True)
class FreeClock:
    """Adam with coupled weight decay lifts thresholds to the weights in a wanted number of steps.

    The decay gives S the gradient λ·S, which Adam normalises to a step of
    about the learning rate, so ``lr = (s* − S₀) / steps`` with
    ``s* = logit(typical |w|)``. Thresholds need this optimizer to themselves,
    whichever one trains the weights.
    """

    start: float
    """S₀, such as -100."""
    typical_weight: float
    """|w| that the thresholds are to meet, such as the bound of the initial distribution."""
    steps: int
    """Optimizer steps from S₀ to s*."""
    weight_decay: float = 1e-5

    def __post_init__(self) -> None:
        if not 0 < self.typical_weight < 1:
            raise ConfigError(
                f"thresholds can meet weights between 0 and 1, not {self.typical_weight}"
            )
        if self.steps < 1 or self.start >= self.goal:
            raise ConfigError(
                f"thresholds need at least 1 step and a start below {self.goal:.2f}, "
                f"got {self.steps} and {self.start}"
            )

    @property
    def goal(self) -> float:
        """``s* = logit(typical |w|)``: from here on entries of that size are pruned."""
        return math.log(self.typical_weight / (1 - self.typical_weight))

    @property
    def learning_rate(self) -> float:
        """``(s* − S₀) / steps``"""
        return (self.goal - self.start) / self.steps

    @property
    def betas(self) -> tuple[float, float]:
        """Adam's averages; the second remembers a hundredth of the run.

        So do the authors' 1,000 steps of some 100,000. A longer memory of the large early
        gradients (λ·S at S₀, and the penalty's before γ is halved) would slow the clock down.
        """
        return 0.9, min(max(1 - 100 / self.steps, 0.9), 0.999)

    def optimizer(self, threshold: nn.Parameter) -> torch.optim.Optimizer:
        """The thresholds' own optimizer."""
        return adam(
            [threshold],
            learning_rate=self.learning_rate,
            betas=self.betas,
            weight_decay=self.weight_decay,
        )


_CONSEQUENCE: dict[StallAction, str] = {
    "project": "the remaining budgets are met by exact projection to the top entries",
    "stop": "the run stops, as it was told to (on_stall = stop)",
    "report": "pruning goes on to its last epoch, and what is then above its budget is projected "
    "and marked as not reached",
}


class PruningEpoch(NamedTuple):
    """How one epoch of pruning ended."""

    epoch: int
    nnz: int
    mean_threshold: float
    gamma: float


@dataclass(frozen=True)
class StallDetector:
    """Says so when nnz stays above its target and hardly falls for some epochs in a row."""

    target: int
    action: StallAction = "project"
    patience: int = 3
    """Epochs in a row with too small a fall."""
    smallest_fall: float = 0.01
    """The share of nnz that an epoch has to prune."""
    first_epoch: int = 0
    """Epochs before this one do not count: a `FreeClock` prunes nothing until the thresholds
    have come up to the weights."""

    def __post_init__(self) -> None:
        if self.action not in _CONSEQUENCE:
            raise ConfigError(
                f"there is no stall action {self.action!r}; choose one of {', '.join(_CONSEQUENCE)}"
            )
        if self.patience < 1:
            raise ConfigError(f"a stall lasts at least 1 epoch, got a patience of {self.patience}")

    def message(self, history: Sequence[PruningEpoch]) -> str | None:
        """What stalled and what follows, or None while pruning moves on."""
        counted = [record for record in history if record.epoch >= self.first_epoch]
        recent = counted[-self.patience - 1 :]
        if len(recent) <= self.patience or recent[-1].nnz <= self.target:
            return None
        least = 1 - self.smallest_fall
        if any(now.nnz <= least * before.nnz for before, now in pairwise(recent)):
            return None
        flat = (
            f"fewer than {self.smallest_fall:.0%} went in each of the last {self.patience} epochs"
        )
        return f"pruning stalled {self._told(recent[-1], flat)}; {_CONSEQUENCE[self.action]}"

    def last_message(self, last: PruningEpoch) -> str:
        """What is said when there are no more epochs, and the target is not reached."""
        action = "project" if self.action == "report" else self.action
        return f"pruning ended {self._told(last, 'no epoch is left')}; {_CONSEQUENCE[action]}"

    def _told(self, last: PruningEpoch, why: str) -> str:
        return (
            f"at epoch {last.epoch}: {last.nnz:,} values are left, the target is "
            f"{self.target:,}, and {why} (mean threshold {last.mean_threshold:.2f}, "
            f"gamma {last.gamma:.2g})"
        )
