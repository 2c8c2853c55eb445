"""Where numbers are drawn: linear and logarithmic axes with round ticks, and names in a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

ROUND = (1, 2, 5, 10)
"""Steps between ticks are these times a power of ten."""
MOST_TICKS = 6
MOST_STEPS = MOST_TICKS - 1
LOG_MARGIN = 0.06
"""Room beside the outermost points of a logarithmic axis, as a share of its length."""
LEAST_DECADES = 0.8
"""Length of a logarithmic axis, so that there are always two ticks on it."""


@dataclass(frozen=True)
class Axis:
    """Values from ``low`` to ``high``, drawn from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    is_log: bool = False
    labels: tuple[str, ...] = ()
    """Of the ticks; their numbers where there are none."""

    def place(self, value: float) -> float:
        """``start + (end - start) (f(value) - f(low)) / (f(high) - f(low))``; f: log or nothing."""
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (self.end - self.start) * (value - low) / (high - low)


AxisOf = Callable[[Iterable[float], float, float], Axis]
"""An axis of values, drawn from a place to a place: one of the functions below."""


def linear_axis(values: Iterable[float], start: float, end: float) -> Axis:
    """From the tick below the lowest value to the tick above the highest, in at most 5 steps."""
    found = list(values)
    low, high = min(found), max(found)
    if low == high:
        low, high = (0.0, 1.0) if low == 0 else sorted((0.0, low))
    step = _step(high - low)
    first, last = math.floor(low / step), math.ceil(high / step)
    if last - first > MOST_STEPS:
        step = _step((last - first) * step)
        first, last = math.floor(low / step), math.ceil(high / step)
    # Rounded, because 3 * 0.1 is not 0.3.
    ticks = tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], start, end, ticks)


def zero_axis(values: Iterable[float], start: float, end: float) -> Axis:
    """Linear, with zero on it: lengths are then to scale."""
    return linear_axis([0.0, *values], start, end)


def rank_axis(values: Iterable[float], start: float, end: float) -> Axis:
    """A tick for each of 1, 2, 3, ..., with half a step on either side."""
    last = max(values)
    ticks = tuple(float(number) for number in range(1, int(last) + 1))
    return Axis(0.5, last + 0.5, start, end, ticks)


def name_axis(names: Sequence[str]) -> AxisOf:
    """Names at equal distances: the first at 1, the second at 2 and so on."""

    def axis(_: Iterable[float], start: float, end: float) -> Axis:
        ticks = tuple(float(number) for number in range(1, len(names) + 1))
        return Axis(0.5, len(names) + 0.5, start, end, ticks, labels=tuple(names))

    return axis


def log_axis(values: Iterable[float], start: float, end: float) -> Axis:
    """A little beyond the extremes; ticks at 1, 2 and 5 times powers of ten, or at fewer."""
    found = list(values)
    low, high = math.log10(min(found)), math.log10(max(found))
    margin = max(LOG_MARGIN * (high - low), (LEAST_DECADES - (high - low)) / 2)
    low, high = low - margin, high + margin
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks: list[float] = []
    for factors in ((1, 2, 5), (1, 3), (1,)):
        numbers = [factor * 10.0**decade for decade in decades for factor in factors]
        ticks = [number for number in numbers if low <= math.log10(number) <= high]
        if len(ticks) <= MOST_TICKS:
            break
    every = -(-len(ticks) // MOST_TICKS)
    return Axis(10**low, 10**high, start, end, tuple(ticks[::every]), is_log=True)


def _step(span: float) -> float:
    """The smallest round number that divides a span into at most `MOST_STEPS` parts."""
    smallest = span / MOST_STEPS
    power = 10.0 ** math.floor(math.log10(smallest))
    return next(factor * power for factor in ROUND if factor * power >= smallest * (1 - 1e-9))
