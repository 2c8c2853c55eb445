"""Sparse item-item models small enough for a phone: ``score(i) = Σ_{j ∈ history} S_ji``.

They know no users: whoever asks brings the items. Weights are integers of a few bits with a
scale for each source j. Sums are float64, in ascending order of j, rounded once to float32.

An item of which the history says nothing, or of which it says 0, is scored ``−1 / (1 + l_i)``,
rounded to float32, with l_i the level of its popularity: below all that is recommended, and
by popularity. So someone without items gets popularity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.evaluation.popularity import popularity_scores
from cerp.graph.edges import places
from cerp.graph.filter import Float32Array, checked_history

Bits = Literal[3, 4, 5, 6, 8]
BITS: tuple[Bits, ...] = get_args(Bits)
Levels = npt.NDArray[np.uint8]

LEVELS_PER_OCTAVE = 8
"""Of popularity: counts that differ by a tenth or more have different levels."""
TAKERS: Int64Array = np.ceil(2.0 ** (np.arange(256) / LEVELS_PER_OCTAVE)).astype(np.int64)
"""``⌈2^(l/8)⌉`` of each level l: the smallest 1 + d that has it."""
SCALE_STEP = 2**6
"""Scales are half precision of which the last 6 of 10 bits of the fraction are 0: so little do
more bits gain, and so well do these shrink in a file."""
LARGEST_SCALE = 63488.0
"""The largest number of this kind."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """For each source j the targets i it speaks for, and how loudly."""

    offsets: Int64Array
    """The targets of source j are ``targets[offsets[j] : offsets[j + 1]]``."""
    targets: Int32Array
    """Item codes, ascending within each source."""
    integers: npt.NDArray[np.int8]
    """``S_ji = scale_j · integer``; from -127 to 127, and not 0."""
    scales: npt.NDArray[np.float16]
    """One for each source; not negative."""
    popularity: Levels
    """Of each item: ``l_i = ⌊8 log2(1 + d_i)⌋`` of the number of its takers, see
    `popularity_levels`."""

    @property
    def num_items(self) -> int:
        """Sources and targets are the same items."""
        return len(self.offsets) - 1

    @cached_property
    def values(self) -> Float32Array:
        """S, entry by entry: a product of half precision and 8 bits is exact in float32."""
        spread = np.repeat(self.scales.astype(np.float32), np.diff(self.offsets))
        values: Float32Array = spread * self.integers
        return values

    def __len__(self) -> int:
        return len(self.targets)

    def score_history(self, items: npt.ArrayLike) -> Float32Array:
        """Scores of all items for anyone who took some items, given in any order."""
        history = checked_history(items, self.num_items)
        counts = np.diff(self.offsets)[history]
        entries = places(self.offsets[history], counts)
        sums = np.bincount(
            self.targets[entries], weights=self.values[entries], minlength=self.num_items
        )
        scores = sums.astype(np.float32)
        np.copyto(scores, self.floor, where=scores == 0)
        return scores

    @cached_property
    def floor(self) -> Float32Array:
        """``−1 / (1 + l_i)``: the scores of items of which a history says nothing."""
        return popularity_scores(self.popularity.astype(np.int64))


class NeighbourScorer:
    """Neighbours judged on users of training: their histories are the training rows."""

    def __init__(self, neighbours: Neighbours, train: Interactions) -> None:
        from scipy.sparse import csr_array

        self.neighbours = neighbours
        shape = (train.num_users, train.num_items)
        self.taken = csr_array((np.ones(len(train)), train.item, train.user_offsets), shape=shape)
        size = (neighbours.num_items, neighbours.num_items)
        values = neighbours.values.astype(np.float64)
        self.weights = csr_array((values, neighbours.targets, neighbours.offsets), shape=size)

    def score_all(self, users: Int32Array) -> Float32Array:
        """What `Neighbours.score_history` gives for each user's items."""
        scores: Float32Array = (self.taken[users] @ self.weights).toarray().astype(np.float32)
        np.copyto(scores, self.neighbours.floor, where=scores == 0)
        return scores


def quantised(weights: Any, bits: Bits, popularity: Levels) -> Neighbours:
    """Round weights, a SciPy matrix with targets in rows, to integers of so many bits.

    The scale of a source is ``max |S_j| / m``, rounded up to a multiple of `SCALE_STEP` as half
    precision is written, m = 2^(bits - 1) − 1; so a weight is off by at most half a scale.
    Entries that become 0 are left out.
    """
    largest = largest_integer(bits)
    by_source = weights.T.tocsr()
    by_source.sort_indices()
    counts = np.diff(by_source.indptr)
    values = by_source.data.astype(np.float64)
    if not np.isfinite(values).all():
        raise ConfigError("the item-item weights hold NaN or infinity: raise the regularization")
    peak = np.zeros(len(counts))
    rows = np.repeat(np.arange(len(counts)), counts)
    np.maximum.at(peak, rows, np.abs(values))
    if peak.max(initial=0) / largest > LARGEST_SCALE:
        raise ConfigError("the item-item weights are too large for half precision: scale them")
    scales = _rounded_up(peak / largest)
    spread = scales.astype(np.float64)[rows]
    ratio = np.divide(values, spread, out=np.zeros_like(values), where=spread > 0)
    integers = np.rint(ratio).astype(np.int8)
    stored = integers != 0
    kept = np.bincount(rows[stored], minlength=len(counts))
    return Neighbours(
        offsets=np.concatenate([[0], np.cumsum(kept)]),
        targets=by_source.indices[stored].astype(np.int32),
        integers=integers[stored],
        scales=np.where(kept > 0, scales, np.float16(0)),
        popularity=popularity,
    )


def _rounded_up(scales: npt.NDArray[np.float64]) -> npt.NDArray[np.float16]:
    """The next half with zeros at the end: positive ones are in the order of their bits."""
    half = scales.astype(np.float16)
    low = half.astype(np.float64) < scales
    half[low] = np.nextafter(half[low], np.float16(np.inf))
    steps = -(-half.view(np.uint16).astype(np.int64) // SCALE_STEP) * SCALE_STEP
    return steps.astype(np.uint16).view(np.float16)


def popularity_levels(degrees: Int64Array) -> Levels:
    """``⌊8 log2(1 + d)⌋`` of how often each item was taken: at most 248.

    Looked up, not computed: the last bits of a logarithm differ between machines.
    """
    levels: Levels = (np.searchsorted(TAKERS, 1 + degrees, side="right") - 1).astype(np.uint8)
    return levels


def pruned(weights: Any, count: int, importance: npt.NDArray[np.float64] | None = None) -> Any:
    """The ``count`` largest positive weights of all, targets in rows; of equal ones the first.

    ``importance`` multiplies the weights of each source when they are compared.
    """
    kept = weights.tocsr().copy()
    kept.sort_indices()
    loud = kept.data if importance is None else kept.data * importance[kept.indices]
    chosen = np.zeros(len(loud), dtype=bool)
    chosen[np.argsort(-loud, kind="stable")[:count]] = True
    kept.data = np.where(chosen & (loud > 0), kept.data, 0)
    kept.eliminate_zeros()
    return kept


def without_smallest(neighbours: Neighbours, count: int) -> Neighbours:
    """Neighbours without ``count`` of their weights: the smallest, of equal ones the first."""
    kept = np.ones(len(neighbours), dtype=bool)
    kept[np.argsort(np.abs(neighbours.values), kind="stable")[:count]] = False
    sources = np.repeat(np.arange(neighbours.num_items), np.diff(neighbours.offsets))
    left = np.bincount(sources[kept], minlength=neighbours.num_items)
    return replace(
        neighbours,
        offsets=np.concatenate([[0], np.cumsum(left)]),
        targets=neighbours.targets[kept],
        integers=neighbours.integers[kept],
        scales=np.where(left > 0, neighbours.scales, np.float16(0)),
    )


def largest_integer(bits: Bits) -> int:
    """M of a width: integers go from −m to m."""
    if bits not in BITS:
        raise ConfigError(f"neighbours are rounded to 3, 4, 5, 6 or 8 bits, not {bits}")
    return (1 << (bits - 1)) - 1
