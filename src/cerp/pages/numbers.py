"""How numbers look on a page."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

UNKNOWN = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
MOST_DECIMALS = 4
"""Of a tick, beyond which it has an exponent."""


def metric_name(metric: str) -> str:
    """``ndcg@10`` as pages write it: NDCG@10; Recall@20, MRR@5."""
    name, _, cut = metric.partition("@")
    shown = name.upper() if name in ("ndcg", "mrr", "map") else name.replace("_", " ").capitalize()
    return f"{shown}@{cut}"


def metric(value: float | None) -> str:
    """Four digits; a dash for what is not known."""
    return UNKNOWN if value is None else f"{value:.4f}"


def signed(value: float) -> str:
    """A difference of two metrics."""
    return f"{value:+.4f}".replace("-", MINUS)


def count(value: float | None) -> str:
    """A whole number with separators of thousands."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """A share; one digit more where it is below a tenth."""
    if share is None:
        return UNKNOWN
    return f"{share:.1%}" if share >= 0.1 else f"{share:.2%}"


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Numbers for an axis: 20k, 1.5M, 2e-07, or all with the same decimals."""
    decimals = max((_decimals(tick) for tick in ticks), default=0)
    return [_short(tick, decimals).replace("-", MINUS) for tick in ticks]


def _short(value: float, decimals: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    if value == 0:
        return "0"
    return f"{value:.{decimals}f}" if decimals <= MOST_DECIMALS else f"{value:g}"


def _decimals(value: float) -> int:
    """How many a number is written with: 2 for 0.05, none for 20."""
    return max(0, -int(Decimal(repr(value)).normalize().as_tuple().exponent))
