"""What the graph filter adds to the scores of a model, as plain numbers.

    score(u, i) = head(z_u, z_i) + β · log(ε + F(u, i) / max F(u, ·))

A model without vectors has no β: it is ranked by F itself (`cerp.graph.filter`).
"""

from __future__ import annotations

from dataclasses import dataclass

from cerp.errors import ConfigError
from cerp.graph.filter import Exponents
from cerp.graph.sharpening import Sharpening

LARGEST_BETA = 1e6
SMALLEST_EPSILON = 1e-12


@dataclass(frozen=True)
class Mixing:
    """How filter and vectors are added up."""

    beta: float
    """How much the filter counts."""
    epsilon: float
    """How much is left to an item that no path reaches."""

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= LARGEST_BETA or not SMALLEST_EPSILON <= self.epsilon <= 1:
            raise ConfigError(
                f"a mixture needs beta from 0 to {LARGEST_BETA:,.0f} and epsilon from "
                f"{SMALLEST_EPSILON:g} to 1, got {self.beta} and {self.epsilon}"
            )


@dataclass(frozen=True)
class FilterTerm:
    """The filter's share in a score; its graph is that of the training interactions."""

    exponents: Exponents
    mixing: Mixing | None = None
    """None: the filter alone ranks."""
    sharpening: Sharpening | None = None
    """None: the plain filter."""
