"""Nearest rows again and again, for points that stay while rows move: only moved ones are tried.

A point keeps its nearest row's score and a bound on the scores of all others. Rows that did not
move have the scores they had. So the new nearest row is the old one or one that moved, unless the
old one has fallen below the bound; then all rows are tried. Exact, as `nearest_rows` is.
Needs torch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cerp.assignment.nearest_rows import (
    doubt,
    half_squares,
    in_parts,
    nearest_with_runners_up,
    row_scores,
    two_highest,
)

MANY_MOVED = 0.9
"""Share of rows beyond which all of them are tried: bounds would save too little."""


class RepeatedSearch:
    """Searches of the same points in books that differ in some rows from the one before."""

    def __init__(self, points: Tensor) -> None:
        self.points = points
        self.book: Tensor | None = None

    def nearest(self, book: Tensor) -> Tensor:
        """What `nearest_rows` gives for these points and this book."""
        moved = None if self.book is None else (self.book != book).any(dim=1)
        self.book = book
        if moved is None or int(moved.sum()) > MANY_MOVED * len(book):
            self.rows, self.best, self.others = nearest_with_runners_up(self.points, book)
        else:
            self._search_again(book, moved)
        return self.rows.clone()

    def _search_again(self, book: Tensor, moved: Tensor) -> None:
        """Try the rows that moved, and all rows for the points where that does not decide."""
        candidates = moved.nonzero()[:, 0]
        if not len(candidates):
            return
        half_square = half_squares(book)

        def search(part: slice) -> Tensor:
            points, rows, others = self.points[part], self.rows[part], self.others[part]
            scores = row_scores(points, book[candidates], half_square[candidates])
            place, best, second = two_highest(scores)
            kept = torch.where(moved[rows], -torch.inf, self.best[part])
            others.copy_(torch.maximum(torch.maximum(second, torch.minimum(best, kept)), others))
            leaves = (best > kept).nonzero()[:, 0]
            rows[leaves] = candidates[place[leaves]]
            best = torch.maximum(best, kept)
            self.best[part] = best
            doubtful = best - others <= doubt(points, half_square)
            undecided: Tensor = doubtful.nonzero()[:, 0] + part.start
            return undecided

        again = torch.cat(in_parts(search, self.points, len(candidates)))
        found = nearest_with_runners_up(self.points[again], book)
        self.rows[again], self.best[again], self.others[again] = found
