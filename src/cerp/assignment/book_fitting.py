"""Books fitted to points, one after the other and then in turns: the steps of residual k-means."""

from __future__ import annotations

import torch
from torch import Tensor

from cerp.assignment.nearest_rows import (
    nearest_rows,
    on_grid,
    row_sums,
    squared_distances,
    squared_lengths,
)
from cerp.assignment.repeated_search import RepeatedSearch
from cerp.assignment.seeds import Seeds
from cerp.progress import Bar

STRETCH = 1 << 15
"""Entities that are given codes together where all of them do not fit into memory."""


class BookFit:
    """Points, the books they are fitted with so far, and what these leave over of each point."""

    def __init__(
        self,
        points: Tensor,
        weights: Tensor,
        rows: int,
        step: float,
        seeds: Seeds,
        ticks: Ticks,
    ) -> None:
        self.left_over = points
        self.seeds = seeds
        self.weights = weights
        self.rows = rows
        self.step = step
        self.ticks = ticks
        self.whole = energy(points, weights)
        self.books: list[Tensor] = []
        self.codes: list[Tensor] = []
        self.history: list[float] = []

    def missed(self) -> float:
        """``Σ_k w_k ‖x_k - Σ_j C_j[c_kj]‖²``"""
        return energy(self.left_over, self.weights)

    def add_book(self, iterations: int) -> None:
        """One more book: Lloyd's algorithm on what is left over."""
        points = self.left_over
        book = points.new_zeros((self.rows, points.shape[1]))
        seeds = self.seeds.draw(points, self.rows, len(self.books))
        book[: len(seeds)] = seeds
        before = self.missed()
        search = RepeatedSearch(points)
        codes = search.nearest(book)
        sums = None
        for iteration in range(iterations):
            previous, codes = codes, codes if iteration == 0 else search.nearest(book)
            codes = self._filled(points, codes, book)
            if sums is None:
                sums = row_sums(points, self.weights, codes, self.rows)
            else:
                moved = (codes != previous).nonzero()[:, 0]
                if not len(moved):
                    self.ticks.advance(iterations - iteration, self.history[-1])
                    break
                arguments = points[moved], self.weights[moved]
                sums += row_sums(*arguments, codes[moved], self.rows)
                sums -= row_sums(*arguments, previous[moved], self.rows)
            book = self._means(sums, book)
            self._record(before, sums, book)
        self.books.append(book)
        self.codes.append(codes)
        add_rows(points, book, codes, sign=-1)

    def improve(self, number: int) -> None:
        """One step of coordinate descent: choose the rows of one book again, then refit them."""
        points, book = self.left_over, self.books[number]
        add_rows(points, book, self.codes[number], sign=1)
        before = self.missed()
        codes = self._filled(points, nearest_rows(points, book), book)
        sums = row_sums(points, self.weights, codes, self.rows)
        book = self._means(sums, book)
        self._record(before, sums, book)
        self.books[number], self.codes[number] = book, codes
        add_rows(points, book, codes, sign=-1)

    def _means(self, sums: Tensor, book: Tensor) -> Tensor:
        """Rows at the grid's nearest places to the weighted means; unused ones stay.

        The objective is a parabola around the mean in every entry of a row, so no place of the
        grid is better.
        """
        weight = sums[:, -1:]
        means = on_grid(sums[:, :-1] / weight.clamp(min=torch.finfo(weight.dtype).tiny), self.step)
        return torch.where(weight > 0, means.float(), book)

    def _filled(self, points: Tensor, codes: Tensor, book: Tensor) -> Tensor:
        """Codes, with the worst-fitted points moved to rows that have none."""
        members = torch.bincount(codes[self.weights > 0], minlength=self.rows)
        empty = (members == 0).nonzero()[:, 0].tolist()
        if not empty:
            return codes
        badness = squared_distances(points, book, codes) * self.weights
        worst = torch.sort(badness, descending=True, stable=True).indices[: 4 * len(empty)]
        codes, remaining = codes.clone(), members.tolist()
        for point in worst[badness[worst] > 0].tolist():
            row = int(codes[point])
            if remaining[row] > 1 and empty:
                remaining[row] -= 1
                codes[point] = empty.pop(0)
        return codes

    def _record(self, before: float, sums: Tensor, book: Tensor) -> None:
        """The error with these rows: ``Σ w‖x‖² - 2 Σ_r S_r·C_r + Σ_r W_r ‖C_r‖²``."""
        rows = book.double()
        fitted = 2 * (sums[:, :-1] * rows).sum() - (sums[:, -1] * rows.square().sum(dim=1)).sum()
        error = max(before - float(fitted), 0.0) / self.whole if self.whole else 0.0
        self.history.append(error)
        self.ticks.advance(1, error)


class Ticks:
    """Advances a bar by 1 in so many steps."""

    def __init__(self, bar: Bar | None, steps: float) -> None:
        self.bar, self.steps = bar, steps

    def advance(self, steps: float, error: float) -> None:
        """So many steps are done, and the error is now this."""
        if self.bar is not None:
            self.bar.advance(steps / self.steps, f"error {error:.4f}")


def choose(points: Tensor, books: list[Tensor], rounds: int) -> list[Tensor]:
    """Codes of points for given books, which are taken off the points."""
    codes = []
    for book in books:
        codes.append(nearest_rows(points, book))
        add_rows(points, book, codes[-1], sign=-1)
    for _ in range(rounds):
        for number, book in enumerate(books):
            add_rows(points, book, codes[number], sign=1)
            codes[number] = nearest_rows(points, book)
            add_rows(points, book, codes[number], sign=-1)
    return codes


def add_rows(points: Tensor, book: Tensor, codes: Tensor, *, sign: int) -> None:
    """``points ± book[codes]`` in place, some at a time."""
    for start in range(0, len(points), STRETCH):
        part = slice(start, start + STRETCH)
        points[part].add_(book[codes[part]], alpha=sign)


def energy(points: Tensor, weights: Tensor) -> float:
    """``Σ_k w_k ‖x_k‖²``"""
    return float((squared_lengths(points) * weights).sum())
