"""How much a model may store: a share of the full table, a count of values, or bytes.

A budget limits *stored values*: a finished model has nnz <= t. The share in
``99%`` is the pruned share of the full table of N x d values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from cerp.errors import BudgetError, ConfigError
from cerp.registry import Registry

SMALLEST_LIMIT = 2
"""One value for each of two codebooks."""

NO_BUDGET = (
    "it is neither a pruned share such as '99%' nor a whole number of values such as 90673 nor a "
    "size such as '400KB'"
)

Unit = Callable[[Fraction, int, int], Fraction | int]
"""Values that a number of the unit allows, of a table of N entities and d dimensions."""

UNITS: Registry[Unit] = Registry("unit of budgets", "cerp.units")
"""By what is written behind the number. Bytes are no such unit: they limit a file."""

_NUMBER = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*(\S*)", re.ASCII)
_SIZE = re.compile(r"[kmg]?i?b", re.ASCII | re.IGNORECASE)
_THOUSANDS = {"": 0, "k": 1, "m": 2, "g": 3}


@UNITS.register("%")
def pruned_share(percent: Fraction, num_entities: int, dim: int) -> Fraction:
    """``(1 − s)·N·d`` values for a pruned share s."""
    if not 0 < percent < 100:
        raise ConfigError("the pruned share must be above 0% and below 100%")
    return (1 - percent / 100) * num_entities * dim


@UNITS.register("values")
@UNITS.register("")
def count(number: Fraction, num_entities: int, dim: int) -> Fraction:
    """The number itself."""
    if number.denominator != 1:
        raise ConfigError(NO_BUDGET)
    if number < SMALLEST_LIMIT:
        raise ConfigError(
            f"the smallest possible is {SMALLEST_LIMIT} values, one for each codebook"
        )
    return number


@dataclass(frozen=True)
class Budget:
    """A limit on the embedding, in stored values or in bytes, made by `parse`."""

    text: str
    """As the caller wrote it."""

    number: Fraction
    unit: str
    """Of `UNITS`, or of bytes."""

    @classmethod
    def parse(cls, value: Budget | str | int) -> Budget:
        """``'99%'`` (pruned share of the full table), a count such as 90673, or ``'400KB'``."""
        if isinstance(value, Budget):
            return value
        text = str(value).strip()
        match = _NUMBER.fullmatch(text)
        number, unit = match.groups() if match else ("0.5", "")  # no count, which the unit says
        budget = cls(text, Fraction(number), unit)
        if budget.size is None:
            budget._values(1, 1)  # what no table allows is refused now
        return budget

    @property
    def size(self) -> int | None:
        """The bytes that the embedding may take in a model file; None: values are limited."""
        return parse_size(self.text, "budget") if _SIZE.fullmatch(self.unit) else None

    def _values(self, num_entities: int, dim: int) -> Fraction | int:
        if self.unit not in UNITS:
            raise ConfigError(f"budget {self.text!r} cannot be: {NO_BUDGET}")
        try:
            return UNITS[self.unit](self.number, num_entities, dim)
        except ConfigError as error:
            raise ConfigError(f"budget {self.text!r} cannot be: {error}") from None

    def __str__(self) -> str:
        return self.text

    def limit(self, num_entities: int, dim: int) -> int:
        """t: the whole values that the unit allows, computed exactly."""
        if self.size is not None:
            raise ConfigError(
                f"budget {self.text!r} is a number of bytes, and only a model file has bytes to "
                "limit; here, give a pruned share such as '99%' or a count of values such as 90673"
            )
        full = num_entities * dim
        limit = int(self._values(num_entities, dim))
        if not SMALLEST_LIMIT <= limit <= full:
            raise BudgetError(
                f"budget {self.text!r} allows {limit:,} values for {num_entities:,} entities of "
                f"dimension {dim}; it must allow from {SMALLEST_LIMIT} (one for each codebook) "
                f"to {full:,} (the full table)"
            )
        return limit


LIKELY_SHARES = ("99%", "95%", "90%", "80%")
ENOUGH_VALUES = 10_000


def default_budget(num_entities: int, dim: int) -> str:
    """The budget of a data set where none is asked for: by how large its full table is.

    The highest of 99%, 95%, 90% and 80% that leaves 10,000 values, else 80%. A hundredth of a
    small table is a few thousand values, far less than the ids and the graph in the same file. On
    MovieLens-100K validation NDCG@10 is .187 with 3,360 values (99%), .192 with 16,800 (95%), and
    no better with more.
    """
    leaving = (
        share
        for share in LIKELY_SHARES
        if Budget.parse(share)._values(num_entities, dim) >= ENOUGH_VALUES
    )
    return next(leaving, LIKELY_SHARES[-1])


def parse_size(text: str, name: str = "size") -> int:
    """Bytes of ``'400KB'``, ``'2MB'`` (KB = 1000), ``'1MiB'`` (KiB = 1024) or ``'5000B'``.

    ``name`` is what a message calls it, such as the option that it was given with.
    """
    match = _NUMBER.fullmatch(text.strip())
    number, unit = match.groups() if match else ("", "")
    if not _SIZE.fullmatch(unit) or number.startswith("-"):
        raise ConfigError(
            f"{name} {text!r} is not a size: a number with B, KB, MB or GB; write one such as "
            "'400KB' or '2MB'"
        )
    base = 1024 if "i" in unit.lower() else 1000
    size = int(Fraction(number) * base ** _THOUSANDS[unit.lower().rstrip("ib")])
    if size == 0:
        raise ConfigError(f"{name} {text!r} leaves no room at all; write a size such as '2MB'")
    return size


def percent_of(budget: str) -> float | None:
    """99 of ``99%``; None of a budget in values or bytes."""
    if not budget.endswith("%"):
        return None
    percent = float(budget.rstrip("%"))
    return int(percent) if percent.is_integer() else percent
