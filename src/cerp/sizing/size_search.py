"""How many values a number of bytes has room for, found out before anything is trained.

A placeholder is an untrained embedding whose tables have the size of a trained
one's (`Method.placeholder`). For a large table it takes a second to build, so few
are built: each is measured once, for all precisions, and those measured say
where to look next.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import numpy as np

from cerp.artifact import VALUES_CODECS, ValuesCodec, code_bytes, order_bytes, table_bytes
from cerp.budget import SMALLEST_LIMIT
from cerp.errors import BudgetError, ConfigError
from cerp.export.item_only import rows_of_items
from cerp.export.size_limit import BITS
from cerp.export.to_arrays import composed
from cerp.methods.base import Context, Method

CLOSE_ENOUGH = 0.002
"""How near to the largest possible number of values `SizeSearch.largest_limit` comes."""
TABLE_HEADER = (480, 560)
"""Bytes that a file's header has for each table, at least and at most."""
GUESSES = 6
"""Guesses along a line before bisection takes over: sizes may go up in steps."""


class SizeSearch:
    """The bytes that the tables of a method, with the order of ids, take at each limit.

    ``loosest`` is the largest limit of a run, on which the size of the tables
    may depend at tighter ones too; it counts where it is above the limit itself.

    Where the whole file is limited, ``tables`` says for how many the header has been counted
    already: more of them take more of it, and fewer less.
    """

    def __init__(self, method: Method, context: Context, *, tables: int | None = None) -> None:
        self._method, self._context, self._tables = method, context, tables
        self._full = context.splits.num_entities * context.config.dim
        self._measured: dict[tuple[int, int], dict[ValuesCodec, int]] = {}
        self.smallest = self._smallest()
        """The smallest limit that the method can meet, whatever the precision."""

    def bytes_at(self, limit: int, values: ValuesCodec, *, loosest: int = 0) -> int:
        """What the tables take at a limit, in a precision."""
        key = limit, max(limit, loosest)
        if key not in self._measured:
            self._measured[key] = self._measure(*key)
        return self._measured[key][values]

    def largest_limit(
        self, size: int, values: ValuesCodec, *, loosest: int = 0, near: int = 0
    ) -> int:
        """The most values whose tables take at most ``size`` bytes, to a few in a thousand.

        It is where a bisection from `smallest` on ends: it fits, and the next limit
        that the bisection has looked at does not. A line through the sizes already
        known leads there in a few steps, or ``near``, if given, at once. There must be
        room for the smallest.
        """
        first, last = self.smallest, min(8 * size // BITS[values], self._full) + 1
        known = self._known(values, loosest)
        for step in count():
            fails = min([last, *(limit for limit, taken in known.items() if taken > size)])
            fits = max([first, *(limit for limit in known if limit < fails)])
            guess = near if step == 0 else 0
            if not guess and step < GUESSES:
                guess = _on_a_line(known, size)
            if not guess:
                guess = (fits + fails) // 2
            ends = _bisected(first, last, min(max(guess, fits), fails - 1))
            unknown = [limit for limit in ends if fits < limit < fails]
            if not unknown:
                break
            known[unknown[0]] = self.bytes_at(unknown[0], values, loosest=loosest)
        return ends[0]

    def _known(self, values: ValuesCodec, loosest: int) -> dict[int, int]:
        """The bytes at all limits that have been measured for this loosest one."""
        return {
            limit: taken[values]
            for (limit, widest), taken in self._measured.items()
            if widest == max(limit, loosest)
        }

    def _smallest(self) -> int:
        """By doubling, then by bisection: a placeholder of the full table is seldom needed."""
        low, high = SMALLEST_LIMIT - 1, SMALLEST_LIMIT
        while (refusal := self._refusal(high)) is not None:
            if high == self._full:  # a method that cannot be shipped says so here
                raise BudgetError(str(refusal)) from refusal
            low, high = high, min(2 * high, self._full)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._refusal(middle) is None else (middle, high)
        return high

    def _refusal(self, limit: int) -> ConfigError | None:
        try:
            self.bytes_at(limit, "fp32")
        except ConfigError as refusal:
            return refusal
        return None

    def _measure(self, limit: int, loosest: int) -> dict[ValuesCodec, int]:
        context = self._context
        placeholder = self._method.placeholder(context.with_limits(loosest), limit)
        embedding, positions = composed(placeholder), context.positions
        if context.config.item_only:
            everyone = np.arange(context.splits.num_entities, dtype=np.int32)
            line = everyone if positions is None else positions
            embedding, positions = rows_of_items(embedding, line, context.splits.num_users), None
        tables = [table_bytes(table.stored, is_random=True) for table in embedding.tables]
        codes = sum(
            code_bytes(len(table.index.codes), table.index.size)
            for table in embedding.tables
            if table.index.codes is not None
        )
        order = 0 if positions is None else order_bytes(context.splits.num_entities)
        return {
            values: order
            + codes
            + self._header(len(tables))
            + sum(taken[values] for taken in tables)
            for values in VALUES_CODECS
        }

    def _header(self, tables: int) -> int:
        """What the header of the file has more, or less, than was counted."""
        more = 0 if self._tables is None else tables - self._tables
        least, most = TABLE_HEADER
        return more * (most if more > 0 else least)


def _bisected(low: int, high: int, last_that_fits: int) -> tuple[int, int]:
    """Where bisection ends between a limit that fits and one that does not."""
    while high - low > max(1, CLOSE_ENOUGH * low):
        middle = (low + high) // 2
        low, high = (middle, high) if middle <= last_that_fits else (low, middle)
    return low, high


def _on_a_line(known: Mapping[int, int], size: int) -> int:
    """The limit of ``size`` bytes on the line through the two known sizes next to it.

    Nothing takes no bytes, if only one is known; 0 where no line says anything.
    """
    nearest = sorted((abs(taken - size), limit) for limit, taken in known.items())[:2]
    (first, second) = ([limit for _, limit in nearest] + [0, 0])[:2]
    taken, other = known.get(first, 0), known.get(second, 0)
    if taken == other:
        return 0
    return max(0, round(first + (size - taken) * (second - first) / (other - taken)))
