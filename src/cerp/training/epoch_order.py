"""In which order an epoch goes through its positives, so that any part of it can be asked for."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

MOST_SHUFFLED = 1 << 24
"""Up to so many positives the order is held: 4 bytes for each, in every process."""
TOGETHER = 1 << 18
"""Places that a formula is computed for at once: on a GPU it is some thirty small kernels."""
ROUNDS = 3
"""Turns of all rows and all columns of a grid, after which nothing of the grid is seen."""


class EpochOrder(Protocol):
    """Every number below the count of positives once, in random order."""

    def at(self, places: slice) -> Tensor:
        """The numbers at some places, those beyond the end left out."""


def epoch_order(count: int, generator: torch.Generator) -> EpochOrder:
    """An order of so many positives, drawn by the generator, on its device."""
    kind = ShuffledOrder if count <= MOST_SHUFFLED else TurnedGrid
    return kind(count, generator)


class ShuffledOrder:
    """An order that is held."""

    def __init__(self, count: int, generator: torch.Generator) -> None:
        self._order = torch.randperm(
            count, generator=generator, device=generator.device, dtype=torch.int32
        )

    def at(self, places: slice) -> Tensor:
        """See `EpochOrder`."""
        return self._order[places]


class TurnedGrid:
    """An order by a formula, for which √n numbers are held.

    All numbers stand in a grid, row after row. Each row is turned by a random number of
    columns, then each column by a random number of rows, and so on: nothing is lost, since
    what leaves a row or a column at one end comes in at the other. This is a Feistel network
    whose functions are tables. The last row may be shorter; columns beyond its end then have one
    number less, and are turned within those that they have.
    """

    def __init__(self, count: int, generator: torch.Generator) -> None:
        device = generator.device
        self._count, self._width = count, math.isqrt(count)
        height = -(-count // self._width)
        in_last_row = count - (height - 1) * self._width
        self._row_lengths = torch.full((height,), self._width, device=device)
        self._row_lengths[-1] = in_last_row
        self._column_lengths = torch.full((self._width,), height, device=device)
        self._column_lengths[in_last_row:] -= 1
        self._row_turns = _turns(self._row_lengths, generator)
        self._column_turns = _turns(self._column_lengths, generator)
        self._known, self._numbers = range(0), torch.empty(0)

    def at(self, places: slice) -> Tensor:
        """See `EpochOrder`."""
        start, end = places.start, min(places.stop, self._count)
        if not (self._known.start <= start and end <= self._known.stop):
            self._known = range(start, min(max(end, start + TOGETHER), self._count))
            self._numbers = self._computed(self._known)
        return self._numbers[start - self._known.start : end - self._known.start]

    def _computed(self, places: range) -> Tensor:
        device = self._row_lengths.device
        numbers = torch.arange(places.start, places.stop, device=device)
        row, column = numbers // self._width, numbers % self._width
        for row_turns, column_turns in zip(self._row_turns, self._column_turns, strict=True):
            column = (column + row_turns[row]) % self._row_lengths[row]
            row = (row + column_turns[column]) % self._column_lengths[column]
        return row * self._width + column


def _turns(lengths: Tensor, generator: torch.Generator) -> Tensor:
    """By how much each row or column is turned in each round."""
    shape = (ROUNDS, len(lengths))
    share = torch.rand(shape, generator=generator, device=lengths.device, dtype=torch.float64)
    return (share * lengths).long()
