"""Sparse item-item models small enough for a phone: ``score(i) = Σ_{j ∈ history} S_ji``.

They know no users: whoever asks brings the items. Values are integers of 8 or 4 bits with a
scale of half precision for each source j. Sums are float64, in ascending order of j, rounded
once to float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cerp.data.ids import Int32Array, Int64Array
from cerp.data.interactions import Interactions
from cerp.errors import ConfigError
from cerp.graph.edges import places
from cerp.graph.filter import Float32Array, checked_history, unreached_by_popularity

Bits = Literal[4, 8]

LARGEST_HALF = 65504.0
SMALLEST_HALF = 2.0**-24


@dataclass(frozen=True, eq=False)
class Neighbours:
    """For each source j the targets i it speaks for, and how loudly."""

    offsets: Int64Array
    """The targets of source j are ``targets[offsets[j] : offsets[j + 1]]``."""
    targets: Int32Array
    """Item codes, ascending within each source."""
    integers: npt.NDArray[np.int8]
    """``S_ji = scale_j · integer``."""
    scales: npt.NDArray[np.float16]
    """One for each source; not negative."""
    bits: Bits
    """Of an integer: from -127 to 127 or from -7 to 7."""
    item_degrees: Int64Array | None = None
    """How often each item was taken. Where it is known, items of which the history says nothing
    follow by popularity, scored ``-1 / (1 + d_i)``; where not, they all have 0."""

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
        if self.item_degrees is not None:
            unreached_by_popularity(scores, self.item_degrees)
        return scores


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
        if self.neighbours.item_degrees is not None:
            unreached_by_popularity(scores, self.neighbours.item_degrees)
        return scores


def quantised(weights: Any, bits: Bits, item_degrees: Int64Array | None = None) -> Neighbours:
    """Round weights, a SciPy matrix with targets in rows, to integers of so many bits.

    The scale of a source is ``max |S_j| / m`` in half precision, rounded up, m = 127 or 7; so a
    weight is off by at most half a scale. Entries that become 0 are left out.
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
    if peak.max(initial=0) / largest > LARGEST_HALF:
        raise ConfigError("the item-item weights are too large for half precision: scale them")
    scales = (peak / largest).astype(np.float16)
    low = scales.astype(np.float64) * largest < peak
    scales[low] = np.nextafter(scales[low], np.float16(np.inf))
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
        bits=bits,
        item_degrees=item_degrees,
    )


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


def estimated_bytes(neighbours: Neighbours) -> int:
    """Bytes of positions, values and scales in a file, to within a few percent.

    Positions are the gaps between stored cells, source by source, each coded as a class of
    its two leading bits at the entropy of the classes, and the bits below as they are.
    """
    sources = np.repeat(np.arange(neighbours.num_items), np.diff(neighbours.offsets))
    cells = sources * np.int64(neighbours.num_items) + neighbours.targets
    shifted = np.diff(cells, prepend=-1) + 3
    width = np.frexp(shifted.astype(np.float64))[1].astype(np.int64) - 3
    _, counts = np.unique(4 * width + (shifted >> width), return_counts=True)
    total = int(counts.sum())
    entropy = float((counts * np.log2(total / counts)).sum()) if total else 0.0
    values = neighbours.bits * len(neighbours)
    bits = entropy + int(width.sum()) + values + 16 * int((neighbours.scales > 0).sum())
    return int(np.ceil(bits / 8))


def largest_integer(bits: Bits) -> int:
    """M of a width: integers go from −m to m."""
    if bits not in (4, 8):
        raise ConfigError(f"neighbours are stored in 4 or 8 bits, not {bits}")
    return 127 if bits == 8 else 7
