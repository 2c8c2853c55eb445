"""Ids of many rows told apart: most of them while the rows are still in the cache.

The ids of the first rows are numbered as `hash_codes` does. Later rows look their ids up among
those, a chunk at a time, and where the words are the same that is the id. What is left, ids that
are new and ids that share a slot with another, is numbered once all rows are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cerp.cores import shared_out
from cerp.data.formats.hash_codes import SPREADING, hashes_of, numbered
from cerp.data.formats.line_cutter import MOST_WORDS, OtherFormError, Words
from cerp.data.ids import Int32Array, Int64Array

BITS_BEYOND = 3
"""A table of ids has 8 to 16 times as many slots: of 16 to 32 ids one shares its own."""
FACTORS = [SPREADING[0] + np.uint64(2 * place) for place in range(MOST_WORDS)]
"""Odd, another for each word of an id."""


class Part(NamedTuple):
    """The ids of some rows."""

    words: Sequence[Words]
    """As many as the longest of these ids has; the last byte of the last is zero in all."""
    hashes: Words

    @classmethod
    def of(cls, words: Sequence[Words]) -> Part:
        """With their hashes."""
        return cls(words, hashes_of(words))


class Apart(NamedTuple):
    """The ids of rows, numbered by first appearance."""

    codes: Sequence[Int32Array]
    """Of some rows after the other."""
    firsts: Int64Array
    """The row in which each id comes first."""
    words: Sequence[Words]
    """Of each id."""


class LookedUp(NamedTuple):
    """Rows whose ids were looked up."""

    codes: Int32Array
    others: Int64Array
    """The rows whose codes are not known yet."""
    part: Part
    """The ids of those."""


def told_apart(parts: Sequence[Part]) -> Apart:
    """The ids of all parts; an error if two of them have one hash."""
    codes, firsts = numbered(np.concatenate([part.hashes for part in parts]))
    ends = np.cumsum([len(part.hashes) for part in parts])
    new_in_parts = np.split(firsts, np.searchsorted(firsts, ends[:-1]))
    distinct = _joined(
        [
            [word[new - end + len(word)] for word in part.words]
            for part, new, end in zip(parts, new_in_parts, ends, strict=True)
        ]
    )

    def check(part: tuple[Part, Int32Array]) -> None:
        (words, _), own = part
        # Of words beyond those of a part nothing is asked: the last of a part ends in a zero,
        # where an id that goes on has a letter.
        for word, values in zip(words, distinct, strict=False):
            if (values.take(own) != word).any():
                raise OtherFormError("two ids have one hash")

    codes_of_parts = np.split(codes, ends[:-1])
    shared_out(check, zip(parts, codes_of_parts, strict=True))
    return Apart(codes_of_parts, firsts, distinct)


class KnownIds:
    """The ids of the first rows, in which those of later rows are looked up."""

    def __init__(self, first: Sequence[Sequence[Words]]) -> None:
        self._first = told_apart([Part.of(words) for words in first])
        count = len(self._first.firsts)
        # All words of an id lie together: what is looked up is hardly ever in the nearest cache.
        rows = np.stack(self._first.words, axis=1)
        self._rows = rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel()
        bits = count.bit_length() + BITS_BEYOND
        self._behind = np.uint64(64 - bits)
        self._slots: Int32Array = np.zeros(1 << bits, dtype=np.int32)
        # Backwards: the first of some ids that share a slot has it, which is likely frequent.
        backwards = np.arange(count - 1, -1, -1, dtype=np.int32)
        self._slots[self._slots_of(self._first.words)[::-1]] = backwards

    def look_up(self, words: Sequence[Words]) -> LookedUp:
        """The codes of some later rows."""
        codes = self._slots.take(self._slots_of(words))
        known = self._rows.take(codes.astype(np.int64)).view(np.uint64)
        width = len(self._first.words)
        differ = words[0] ^ known[::width]
        for place, word in enumerate(words[1:width], start=1):  # as in `told_apart`
            differ |= word ^ known[place::width]
        others = np.flatnonzero(differ != 0)
        return LookedUp(codes, others, Part.of([word.take(others) for word in words]))

    def with_later(self, later: Sequence[LookedUp]) -> Apart:
        """The ids of the first rows and all later ones, whose codes are completed in place."""
        codes, firsts, words = self._first
        if not later:
            return self._first
        own = np.arange(len(firsts), dtype=np.int32)
        unseen = np.flatnonzero(self._slots.take(self._slots_of(words)) != own)
        hidden = Part.of([word.take(unseen) for word in words])
        others = told_apart([hidden, *(rows.part for rows in later)])
        # Hidden ids are distinct, so that they have the first numbers; all behind them are new.
        is_new = slice(len(unseen), None)
        new = np.arange(len(firsts), len(firsts) + len(others.firsts) - len(unseen))
        code_of = np.concatenate([unseen, new]).astype(np.int32)
        start, places = sum(map(len, codes)), []
        for rows, numbers in zip(later, others.codes[1:], strict=True):
            rows.codes[rows.others] = code_of.take(numbers)
            places.append(rows.others + start)
            start += len(rows.codes)
        first_of_new = np.concatenate(places)[others.firsts[is_new] - len(unseen)]
        return Apart(
            [*codes, *(rows.codes for rows in later)],
            np.concatenate([firsts, first_of_new]),
            _joined([words, [word[is_new] for word in others.words]]),
        )

    def _slots_of(self, words: Sequence[Words]) -> Int64Array:
        """Less mixed than a hash, and sooner made: ids may share a slot."""
        mixed = words[0] * FACTORS[0]
        for word, factor in zip(words[1:], FACTORS[1:], strict=False):
            mixed += word * factor
        mixed >>= self._behind
        return mixed.view(np.int64)


def _joined(parts: Sequence[Sequence[Words]]) -> list[Words]:
    """Words of all parts; where some have fewer words than others, zeros stand for the rest."""
    count = max(map(len, parts))
    padded = ([*part, *[np.zeros_like(part[0])] * (count - len(part))] for part in parts)
    return [np.concatenate(words) for words in zip(*padded, strict=True)]
