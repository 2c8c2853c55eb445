"""The k best of each row when scores are known only up to a rounding error.

A product of float32 matrices is fast, but its last bits depend on the library
and the machine. So it only decides which few columns can matter; those are
scored again exactly, and ranked by that.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cerp.artifact.model import FloatArray
from cerp.data.ids import Int32Array, Int64Array

GROUP = 64
"""Columns a group."""
GROUPS_PER_RESULT = 4
"""With fewer groups than this for each of the k, columns are looked at one by one."""
UNIT_ROUNDOFF = 2.0**-24
"""Largest relative error of one rounding to float32."""
SMALLEST = 2.0**-149
"""Largest absolute error of one rounding to float32 that underflows."""
LOWEST = float(np.finfo(np.float32).min)


class Lists(NamedTuple):
    """Ranked columns of several rows, one row after the other."""

    starts: list[int]
    """Where the list of each row begins."""
    ends: list[int]
    columns: Int32Array | Int64Array
    """Best first; equal scores in ascending column order."""
    scores: FloatArray


def product_error(dim: int) -> float:
    """γ such that a float32 dot product is within γ·‖a‖·‖b‖ of the exact one, itself rounded.

    ``γ_n = n·u / (1 − n·u)`` with u = 2^-24 bounds the error of n roundings in a
    row, whatever the order of the summation, relative to ``Σ|a_i b_i| <= ‖a‖·‖b‖``
    (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). Here
    n = dim + 8: beside the product there are a few roundings of vectors, norms,
    thresholds and the exact score.
    """
    roundings = (dim + 8) * UNIT_ROUNDOFF
    return roundings / (1 - roundings)


def contenders(
    scores: FloatArray, k: int, margin: npt.NDArray[np.float64]
) -> tuple[Int64Array, Int64Array]:
    """Places that can be among the k best of their row, if scores are off by at most a margin.

    Of the maxima of any disjoint groups of columns, the k-th best is no better
    than the k-th best column. So k columns have true scores of at least that
    maximum less the margin, and a column that is as good as they are is at most
    two margins below the maximum. A score of -inf is never a contender. The
    places are (row, column), in ascending order.
    """
    rows, num_columns = scores.shape
    groups = num_columns // GROUP
    maxima = scores
    if groups >= GROUPS_PER_RESULT * k:
        # Column c is in group c mod groups: so the maxima are those of whole rows of memory.
        maxima = scores[:, : GROUP * groups].reshape(rows, GROUP, groups).max(axis=1)
    last = max(maxima.shape[1] - k, 0)
    best = np.partition(maxima, last, axis=1)[:, last]
    least = np.maximum(best - 2 * margin, LOWEST).astype(np.float32)
    return np.divmod(np.flatnonzero(scores >= least[:, None]), num_columns)


def within_reach(
    bounds: FloatArray, first: Lists, k: int, margin: npt.NDArray[np.float64]
) -> tuple[Int64Array, Int64Array]:
    """Places whose bounds, too low by at most a margin, reach the last of the k first found."""
    last = [
        first.scores[end - 1] if end - start == k else LOWEST
        for start, end in zip(first.starts, first.ends, strict=True)
    ]
    least = np.maximum(np.array(last, dtype=np.float64) - 2 * margin, LOWEST).astype(np.float32)
    return np.divmod(np.flatnonzero(bounds >= least[:, None]), bounds.shape[1])


def ranked(
    rows: Int64Array, columns: Int64Array, exact: FloatArray, num_rows: int, k: int
) -> Lists:
    """The k best of each row by their exact scores; places as `contenders` gives them."""
    order = np.lexsort((-exact, rows))  # stable: equal scores stay in ascending column order
    starts = np.searchsorted(rows, np.arange(num_rows + 1)).tolist()
    ends = [min(start + k, end) for start, end in pairwise(starts)]
    return Lists(starts[:-1], ends, columns[order], exact[order])
