"""How much a model may store: a share of the full table, a count of values, or bytes.

A budget limits *stored values*: a finished model has nnz <= t. The share in
``99%`` is the pruned share of the full table of N x d values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from cerp.errors import ConfigError

SMALLEST_LIMIT = 2
"""One value for each of the two codebooks."""

_NUMBER = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(%|[kmg]?i?b)?", re.ASCII | re.IGNORECASE)
_THOUSANDS = {"": 0, "k": 1, "m": 2, "g": 3}


@dataclass(frozen=True)
class Budget:
    """A limit on the embedding, in stored values or in bytes, made by `parse`."""

    text: str
    """As the caller wrote it."""

    kept: Fraction | int | None
    """The share of the full table that may be stored, or a count of values; None: `size` limits."""

    size: int | None = None
    """The bytes that the embedding may take in a model file."""

    @classmethod
    def parse(cls, value: Budget | str | int) -> Budget:
        """``'99%'`` (pruned share of the full table), a count such as 90673, or ``'400KB'``."""
        if isinstance(value, Budget):
            return value
        text = str(value).strip()
        match = _NUMBER.fullmatch(text)
        number, unit = match.groups() if match else ("", None)
        if unit == "%":
            return cls(text, _kept_share(text, Fraction(number)))
        if unit is not None:
            return cls(text, None, parse_size(text, "budget"))
        if match is None or "." in number:
            raise ConfigError(
                f"budget {text!r} is neither a pruned share such as '99%' nor a whole number of "
                "values such as 90673 nor a size such as '400KB'"
            )
        count = int(number)
        if count < SMALLEST_LIMIT:
            raise ConfigError(
                f"budget {text!r} is too small: the smallest possible is {SMALLEST_LIMIT} values, "
                "one for each codebook"
            )
        return cls(text, count)

    def __str__(self) -> str:
        return self.text

    def limit(self, num_entities: int, dim: int) -> int:
        """t: the count itself, or ``⌊(1 − s)·N·d⌋`` for a pruned share s, computed exactly."""
        if self.kept is None:
            raise ConfigError(
                f"budget {self.text!r} is a number of bytes, and only a model file has bytes to "
                "limit; here, give a pruned share such as '99%' or a count of values such as 90673"
            )
        full = num_entities * dim
        limit = self.kept if isinstance(self.kept, int) else int(self.kept * full)
        if not SMALLEST_LIMIT <= limit <= full:
            raise ConfigError(
                f"budget {self.text!r} allows {limit:,} values for {num_entities:,} entities of "
                f"dimension {dim}; it must allow from {SMALLEST_LIMIT} (one for each codebook) "
                f"to {full:,} (the full table)"
            )
        return limit


def parse_size(text: str, name: str = "size") -> int:
    """Bytes of ``'400KB'``, ``'2MB'`` (KB = 1000), ``'1MiB'`` (KiB = 1024) or ``'5000B'``.

    ``name`` is what a message calls it, such as the option that it was given with.
    """
    match = _NUMBER.fullmatch(text.strip())
    number, unit = match.groups() if match else ("", None)
    if unit in (None, "%") or number.startswith("-"):
        raise ConfigError(
            f"{name} {text!r} is not a size: a number with B, KB, MB or GB; write one such as "
            "'400KB' or '2MB'"
        )
    base = 1024 if "i" in unit.lower() else 1000
    size = int(Fraction(number) * base ** _THOUSANDS[unit.lower().rstrip("ib")])
    if size == 0:
        raise ConfigError(f"{name} {text!r} leaves no room at all; write a size such as '2MB'")
    return size


def _kept_share(text: str, percent: Fraction) -> Fraction:
    if not 0 < percent < 100:
        raise ConfigError(
            f"budget {text!r} is out of range: the pruned share must be above 0% and below 100%"
        )
    return 1 - percent / 100


def percent_of(budget: str) -> float | None:
    """99 of ``99%``; None of a budget in values or bytes."""
    if not budget.endswith("%"):
        return None
    percent = float(budget.rstrip("%"))
    return int(percent) if percent.is_integer() else percent
