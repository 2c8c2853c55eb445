"""The clocks by which thresholds prune.

In the authors' code the *coupled* weight decay of Adam lifts thresholds by
about the learning rate per step; with AdamW nothing is ever pruned, and another
batch size means another pruning time. Here the caller says how many steps
pruning takes, and one of two clocks keeps to it:

- `ScheduledClock`: a common shift of all thresholds keeps nnz on a curve to the target;
  the thresholds' gradients decide which entries go.
- `FreeClock`: the paper's dynamics, its learning rate derived from the wanted steps;
  `halfway_start` says where to start, so that entries fall while the penalty still weighs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from cerp.errors import ConfigError
from cerp.pruning.functional import shift_to_keep

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


def halfway_start(typical_weight: float, entries: int) -> float:
    """``S₀ = 2·s₁ − s*``: where free thresholds start for the first entry to fall half-way.

    With ``s* = logit(a)`` and ``s₁ = logit(a / n)``: n weights that start uniform on [−a, a] have
    a smallest size of about a/n, which thresholds meet at s₁, and the largest at s*. Rising
    evenly, they are at s₁ after half of the way from S₀ to s*. So with `FreeClock` over E epochs
    the first entry falls after E/2 epochs and the bulk, which is within ln 10 of s*, near E,
    at any batch size; γ, halved after every epoch, is then at ``γ₀·2^−⌊E/2⌋`` and ``γ₀·2^−E``.

    From the authors' S₀ = -100, with n = 10⁶ and E epochs, all entries fall within the last
    0.14·E: some 3,500 of their steps of 10 positives, but a few steps of 8,192.
    """
    return 2 * _logit(typical_weight / entries) - _logit(typical_weight)


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


@dataclass(frozen=True)
class FreeClock:
    """Adam with coupled weight decay lifts thresholds to the weights in a wanted number of steps.

    The decay gives S the gradient λ·S, which Adam normalises to a step of
    about the learning rate, so ``lr = (s* − S₀) / steps`` with
    ``s* = logit(typical |w|)``. Thresholds need an optimizer with these settings to
    themselves (`cerp.training.optimizers.threshold_adam`), whichever one trains the weights.
    """

    start: float
    """S₀, such as -100, or by `halfway_start`."""
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
        return _logit(self.typical_weight)

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
